package dialect

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/cli/usage"
)

func commands() []string { return []string{"help", "version", "completion"} }

// translated formats the translation of a command line.
func translated(t testing.TB, dialect Dialect, argv ...string) (Line, error) {
	t.Helper()
	flags := flagSet(t)
	return Translate(argv, dialect, flags, commands())
}

func TestTranslateOwnWords(t *testing.T) {
	for _, tc := range []struct{ argv, want string }{
		{"", ""},
		{"prog", "-- prog"},
		{"prog -np 4 --hosts a -x -- -v", "-- prog -np 4 --hosts a -x -- -v"},
		{"./a/prog", "-- ./a/prog"},
		{"- x", "-- - x"},
		{"-np 4 prog -n 8", "--np=4 -- prog -n 8"},
		{"-np=4 prog", "--np=4 -- prog"},
		{"-n 4 prog", "--np=4 -- prog"},
		{"-n4 prog", "--np=4 -- prog"},
		{"-n=4 prog", "--np=4 -- prog"},
		{"--np 4 prog", "--np=4 -- prog"},
		{"--np=4 prog", "--np=4 -- prog"},
		{"--num-proc 4 prog", "--np=4 -- prog"},
		{"--num_proc 4 prog", "--np=4 -- prog"},
		{"-H a:2 prog", "--hosts=a:2 -- prog"},
		{"-Ha:2 prog", "--hosts=a:2 -- prog"},
		{"-H=a:2 prog", "--hosts=a:2 -- prog"},
		{"-H a -np 2 -H b:2 prog", "--hosts=a,b:2 --np=2 -- prog"},
		{"-host a:2,b prog", "--hosts=a:2,b -- prog"},
		{"-hosts a:2,b prog", "--hosts=a:2,b -- prog"},
		{"--host a prog", "--hosts=a -- prog"},
		{"-hostfile f prog", "--hostfile=f -- prog"},
		{"-machinefile f prog", "--hostfile=f -- prog"},
		{"-hostfile=f prog", "--hostfile=f -- prog"},
		{"-f f prog", "--hostfile=f -- prog"},
		{"-wdir /w prog", "--wdir=/w -- prog"},
		{"-wd /w prog", "--wdir=/w -- prog"},
		{"-wd=/w=x prog", "--wdir=/w=x -- prog"},
		{"-vH a prog", "--verbose --hosts=a -- prog"},
		{"-vvHa prog", "--verbose --verbose --hosts=a -- prog"},
		{"-v prog", "--verbose -- prog"},
		{"--verbose prog", "--verbose -- prog"},
		{"--verbose=2 prog", "--verbose=2 -- prog"},
		{"--dry-run prog", "--dry-run -- prog"},
		{"--tag-output prog", "--tag-output -- prog"},
		{"-x A -x B=1 prog", "--export=A --export=B=1 -- prog"},
		{"-x -y prog", "--export=-y -- prog"},
		{"-H -- prog", "--hosts=-- -- prog"},
		{"-np 2 -- prog -np 3", "--np=2 -- prog -np 3"},
		{"-- -prog", "-- -prog"},
		{"-np 2 -- -- prog", "--np=2 -- -- prog"},
		{"--help", "--help"},
		{"-h prog", "--help -- prog"},
		{"version", "version"},
		{"help version", "help version"},
		{"completion bash", "completion bash"},
		{"-v version", "--verbose -- version"},
		{"-- version", "-- version"},
		{"prog version", "-- prog version"},
		{"--version", "version"},
		{"--dialect gorun prog", "-- prog"},
		{"-- sh -c :", "-- sh -c :"},
		{`sh -c \: x:y ::`, "-- sh -c : x:y ::"},
		{`-- a \:`, `-- a \:`},
		{"-- a : -np 2 b", "-- a : -np 2 b"},
	} {
		got, err := translated(t, Own, strings.Fields(tc.argv)...)
		if err != nil || !slices.Equal(got.Args, strings.Fields(tc.want)) || got.Notice() != "" {
			t.Errorf("%q: got %q, want %q; %v, notice %q", tc.argv, strings.Join(got.Args, " "), tc.want, err, got.Notice())
		}
	}
}

func TestTranslateTakesAnEmptyWordForTheProgram(t *testing.T) {
	if got, err := translated(t, Own, "-np", "2", "", "-v"); err != nil || !slices.Equal(got.Args, []string{"--np=2", "--", "", "-v"}) {
		t.Errorf("%q, %v", got.Args, err)
	}
	if got, err := translated(t, Own, "-x", "", "prog"); err != nil || !slices.Equal(got.Args, []string{"--export=", "--", "prog"}) {
		t.Errorf("%q, %v", got.Args, err)
	}
}

// A flag that gorun does not need gives one notice.
func TestFlagsThatAreNotNeeded(t *testing.T) {
	const why = " is not needed: gorun starts the ranks itself, without mpirun or jsrun, and they use Gloo, also where Horovod was built with MPI"
	for typed, want := range map[string]string{"--mpi": "--mpi" + why, "--jsrun": "--jsrun" + why, "--mpi --mpi": "--mpi" + why, "--gloo": ""} {
		got, err := Translate(append(strings.Fields(typed), "-np", "2", "x"), Horovod, flagSet(t), nil)
		if err != nil || got.Notice() != want {
			t.Errorf("%s: %v, %q, want %q", typed, err, got.Notice(), want)
		}
	}
}

// A command without a program accepts flags anywhere.
func TestTranslateWordsAnywhere(t *testing.T) {
	flags := flagSet(t)
	got, err := TranslateWords([]string{"allreduce", "-np", "4", "-membind", "numa", "x", "-Ha:2", "--"}, flags)
	if err != nil || !slices.Equal(got.Args, []string{"allreduce", "--np=4", "x", "--hosts=a:2", "--"}) || got.Notice() != "no effect yet: -membind" {
		t.Errorf("%q, %v, %q", got.Args, err, got.Notice())
	}
	if _, err := TranslateWords([]string{"-np"}, flags); err == nil {
		t.Error("a value is missing, and nobody said so")
	}
}

// FuzzTranslate checks that no words in any dialect cause a panic, that errors
// are usage errors, and that a program's words stay unchanged.
func FuzzTranslate(f *testing.F) {
	f.Add("-np\x004\x00-x\x00A", "prog\x00-np\x00--\x00", byte(0))
	f.Add("-vH\x00a\x00--", "-prog\x00-x", byte(1))
	f.Add("-=\x00--=\x00-\xff\x00-vé", "p", byte(2))
	f.Add("-mca\x00a\x00b\x00-genv\x00A=1\x00-genv\x00A\x001\x00-K0\x00--mpi-args\x00'--mca a b' -np 2", "a\x00:\x00b", byte(3))
	f.Add("--export\x00NONE\x00-t\x001-2:3\x00--dialect\x00srun\x00-m", "", byte(4))
	f.Add("-np\x001\x00a\x00:\x00-np\x002\x00--app\x00f", "a\x00\\:\x00b", byte(1))
	f.Add("--map-by=ppr:2:node:pe=1\x00--output\x00tag,dir=a\x00-prepend-pattern\x00%", "x", byte(5))
	flags := flagSet(f)
	f.Fuzz(func(t *testing.T, anything, theirs string, which byte) {
		dialects := []Dialect{Own, OpenMPI, Hydra, Horovod, Slurm, Torch}
		dialect := dialects[int(which)%len(dialects)]
		words, program := strings.Split(anything, "\x00"), strings.Split(theirs, "\x00")
		got, err := Translate(words, dialect, flags, commands())
		checkTranslated(t, words, got, err)
		for _, ours := range [][]string{{"-np", "4", "--"}, {"-np", "4"}} {
			got, err := Translate(slices.Concat(ours, program), dialect, flags, commands())
			if len(ours) == 2 && (!isPositional(program[0]) || hasColon(program) || dialect == Torch) {
				continue // a flag, several programs, or a Python script
			}
			if err != nil || !slices.Equal(got.Args, slices.Concat([]string{"--np=4", "--"}, program)) {
				t.Fatalf("%q, then %q: %q, %v", ours, program, got.Args, err)
			}
			if err := flags.Parse(got.Args); err != nil || !slices.Equal(flags.Args(), program) {
				t.Fatalf("%q: %q, %v", program, flags.Args(), err)
			}
		}
	})
}

// hasColon reports whether words hold a colon that separates programs, or an escaped one.
func hasColon(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return w == ":" || w == `\:` })
}

// checkTranslated checks invariants of all translations.
func checkTranslated(t *testing.T, words []string, got Line, err error) {
	t.Helper()
	var mistake *usage.Error
	if err != nil {
		if !errors.As(err, &mistake) || err.Error() == "" {
			t.Fatalf("%q: %v", words, err)
		}
		return
	}
	end := slices.Index(got.Args, "--")
	if end < 0 {
		end = len(got.Args)
	}
	if len(words) > 0 && slices.Contains(commands(), words[0]) || slices.Equal(got.Args, []string{"version"}) {
		return
	}
	for _, arg := range got.Args[:end] {
		if !strings.HasPrefix(arg, "--") {
			t.Fatalf("%q became %q", words, got.Args)
		}
	}
	program := got.Args[min(end+1, len(got.Args)):]
	if len(program) > 1 && program[0] == "python" && program[1] == "-u" {
		return // started as torchrun does
	}
	if hasColon(words) {
		return // several programs, or an escaped colon
	}
	if !slices.Equal(program, words[len(words)-len(program):]) {
		t.Fatalf("%q became %q", words, got.Args)
	}
}

// GPU options of srun that gorun does not support.
func TestGPUsThatAreRefused(t *testing.T) {
	for argv, want := range map[string]string{
		"--gpus-per-task=two a":    `--gpus-per-task "two": expected a whole number`,
		"--gpus-per-task=a100:x a": "expected a whole number",
		"--gpus-per-task=-1 a":     "expected a whole number",
		"--ntasks-per-gpu=2 a":     "--ntasks-per-gpu 2: gorun does not support it",
	} {
		if _, err := translated(t, Slurm, strings.Fields(argv)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", argv, err, want)
		}
	}
}

// Invalid numbers of hosts.
func TestNodesThatAreRefused(t *testing.T) {
	for argv, want := range map[string]string{
		"--nnodes=0 a": "expected N or MIN:MAX hosts", "--nnodes=4:2 a": "expected N or MIN:MAX hosts", "--nnodes=2: a": "expected N or MIN:MAX",
		"--nnodes=:2 a": "expected N or MIN:MAX hosts", "--nnodes=two a": "expected N or MIN:MAX hosts", "--nnodes=1:2:3 a": "expected N or MIN:MAX hosts",
		"--nnodes=1:2 a": "--nnodes 1:2: hosts come and go only where ranks may be started again", "--nnodes=1:2 --max-restarts=0 a": "hosts come and go only",
		"--nnodes=1:2 --max-restarts=1 --nproc-per-node=x a": `--nproc-per-node "x": expected a number of ranks`,
	} {
		if _, err := translated(t, Torch, strings.Fields(argv)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", argv, err, want)
		}
	}
}
