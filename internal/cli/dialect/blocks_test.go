package dialect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/cli/usage"
)

// shown is a translation of several programs in one text: the job's flags, then for every program its
// flags and its words.
func shownBlocks(t Line) string {
	job := t.Args[:max(slices.Index(t.Args, "--"), 0)]
	parts := []string{strings.Join(job, " ")}
	for _, b := range t.Blocks {
		parts = append(parts, fmt.Sprintf("%s %q", strings.Join(b.Args, " "), b.Program))
	}
	return strings.TrimSpace(strings.Join(parts, " | "))
}

func TestTranslateSeveralPrograms(t *testing.T) {
	for _, tc := range []struct {
		dialect    Dialect
		argv, want string
	}{
		{Own, "-np 1 ./server --port 1 : -np 4 -x MODE=w ./worker a b", `| --np=1 ["./server" "--port" "1"] | --np=4 --export=MODE=w ["./worker" "a" "b"]`},
		{Own, "-np 1 a : -n 2 b : -n3 c", `| --np=1 ["a"] | --np=2 ["b"] | --np=3 ["c"]`},
		{Own, "--timeout 5 -np 1 a : -np 1 --summary b", `--timeout=5 --summary | --np=1 ["a"] | --np=1 ["b"]`},
		{Own, "-np 1 -H x -wdir /w a : -np 1 -H y:2 --hostfile f b", `| --np=1 --hosts=x --wdir=/w ["a"] | --np=1 --hosts=y:2 --hostfile=f ["b"]`},
		{Own, "--hostfile f -np 1 a : -np 1 b", `--hostfile=f | --np=1 ["a"] | --np=1 ["b"]`},
		{Own, "-x A --env-file e --no-env -np 1 a : -np 1 --env-file g b", `--env-file=e --no-env --env-file=g | --export=A --np=1 ["a"] | --np=1 ["b"]`},
		{Own, `-np 1 a \: -- : -np 1 -- b : \: c`, `| --np=1 ["a" ":" "--"] | --np=1 ["b" ":" "\\:" "c"]`},
		{Own, "-x : -np 1 a : -np 1 b", `| --export=: --np=1 ["a"] | --np=1 ["b"]`},
		{OpenMPI, "-c 1 -mca pml ob1 a : -c 2 --bind-to core b", `--bind-to=core | --np=1 ["a"] | --np=2 ["b"]`},
		{OpenMPI, "--tag-output -np 1 a : --tag-output -np 1 b", `--prefix=mpirun --prefix=mpirun | --np=1 ["a"] | --np=1 ["b"]`},
		{Hydra, "-genv G 1 -env L 2 a : -n 2 -envnone b", `--export=G=1 | --export=L=2 --np=1 ["a"] | --np=2 --no-env ["b"]`},
		{Hydra, "-genvlist A,B -n 1 a : -envlist C b", `--no-env --export=A --export=B | --np=1 ["a"] | --no-env --export=C --np=1 ["b"]`},
		{Torch, "-np 1 a.py : -np 1 --no-python b", `| --np=1 ["python" "-u" "a.py"] | --np=1 ["b"]`},
		{Own, "-np 1 a : -env L=1 b --dialect x : --dialect hydra c", `| --np=1 ["a"] | --export=L=1 --np=1 ["b" "--dialect" "x"] | --np=1 ["c"]`},
	} {
		got, err := translated(t, tc.dialect, strings.Fields(tc.argv)...)
		if err != nil || !sameFlags(shownBlocks(got), tc.want) {
			t.Errorf("%v %q:\ngot  %s\nwant %s\n%v", tc.dialect, tc.argv, shownBlocks(got), tc.want, err)
		}
	}
}

// sameFlags compares results of shown, ignoring the order of flags.
func sameFlags(a, b string) bool {
	sorted := func(s string) []string { return slices.Sorted(slices.Values(strings.Fields(s))) }
	return slices.Equal(sorted(a), sorted(b))
}

func TestWhatSeveralProgramsCannotBe(t *testing.T) {
	for _, tc := range []struct {
		dialect         Dialect
		argv, err, hint string
	}{
		{Own, ": true", `no program before ":"`, "-np 1 ./server : -np 4 ./worker"},
		{Own, "-np 1 a : : -np 1 b", `no program before ":"`, ""},
		{Own, "true :", `nothing stands after "true :"`, `'\:'`},
		{Own, "-np 1 a : -np 2", "no program after the last", ""},
		{Own, "-np 1 a : -np 2 --", "no program after the last", ""},
		{Own, "-np 2 true : ./other", "./other has no -np", "-np 1 ./other"},
		{Own, "true : -np 1 ./other", "true has no -np", "-np 1 true"},
		{OpenMPI, "-np 2 true : true", "true has no -np", "-np 1 true"},
		{Own, "-np 1 a : -np 1 --tiemout 5 b", "unknown flag --tiemout", "did you mean --timeout?"},
		{Own, "--timeout 5 -np 1 a : --timeout 6 -np 1 b", "--timeout 5 of one program and --timeout 6 of another contradict each other", "to the whole job"},
		{OpenMPI, "-np 1 a : -np 1 --ppn 2 b : -npernode 1 -np 1 c", "--ppn 2 of one program and -npernode 1 of another contradict", ""},
		{Own, "--quiet -np 1 a : --quiet=false -np 1 b", "--quiet true of one program and --quiet false of another", ""},
	} {
		_, err := translated(t, tc.dialect, strings.Fields(tc.argv)...)
		if !usage.Is(err) || !strings.Contains(err.Error(), tc.err) || !strings.Contains(usage.Hint(err), tc.hint) {
			t.Errorf("%v %q: %v, hint %q; want %q, %q", tc.dialect, tc.argv, err, usage.Hint(err), tc.err, tc.hint)
		}
	}
}
