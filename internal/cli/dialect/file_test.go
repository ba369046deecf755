package dialect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/cli/usage"
)

func TestProgramLines(t *testing.T) {
	text := "# programs\n\n-np 1 \"a b\" 'c # d' e\\ f # the first\r\n  -np 2 \\\n b#c \\\r\n d\n\t#\n"
	lines, err := programLines(text)
	want := [][]string{{"-np", "1", "a b", "c # d", "e f"}, {"-np", "2", "b#c", "d"}}
	if err != nil || !slices.EqualFunc(lines, want, slices.Equal) {
		t.Errorf("%q, %v", lines, err)
	}
	for text, want := range map[string]string{"": "names no program", "# a\n": "names no program", "a 'b\n": "a quote is not closed"} {
		if _, err := programLines(text); !usage.Is(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestProgramsByRank(t *testing.T) {
	for _, tc := range []struct {
		text string
		np   int
		want string // ranks×words, separated by commas
	}{
		{"0 a\n1-3 b c", 0, "1×a, 3×b c"},
		{"1-2 b\n0,3 a", 4, "1×a, 2×b, 1×a"},
		{"0 a\n* b", 4, "1×a, 3×b"},
		{"1,3 w %t/%o\n* o %t %o%%", 4, "1×o 0 0%, 1×w 1/0, 1×o 2 1%, 1×w 3/1"},
		{"* a", 2, "2×a"},
	} {
		lines, err := programLines(tc.text)
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := blocksByRank(lines, tc.np)
		var got []string
		for _, b := range blocks {
			got = append(got, strings.TrimPrefix(b.Args[0], "--np=")+"×"+strings.Join(b.Program, " "))
		}
		if err != nil || strings.Join(got, ", ") != tc.want {
			t.Errorf("%q: %s, want %s; %v", tc.text, strings.Join(got, ", "), tc.want, err)
		}
	}
	for _, tc := range []struct {
		text string
		np   int
		want string
	}{
		{"0", 0, "expected ranks and a program"},
		{"x a", 0, `"x": want ranks such as 0,8-11`},
		{"0 a\n0-1 b", 0, "two lines for rank 0"},
		{"* a\n* b", 2, "two lines for *"},
		{"0 a\n* b", 0, "-np is missing"},
		{"0,2 a", 0, "there is no rank 2"},
		{"0 a", 2, "no line for rank 1"},
		{"0-3 a", 2, "there is no rank"},
	} {
		lines, err := programLines(tc.text)
		if err == nil {
			_, err = blocksByRank(lines, tc.np)
		}
		if !usage.Is(err) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %q", tc.text, err, tc.want)
		}
	}
}

// fromFile translates a command line whose FILE has the given text.
func fromFile(t *testing.T, dialect Dialect, text, argv string) (Line, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "programs")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	line, err := translated(t, dialect, strings.Fields(strings.ReplaceAll(argv, "FILE", name))...)
	if err != nil {
		return line, err
	}
	flags := flagSet(t)
	return line.WithFile(flags)
}

func TestProgramsOfAFile(t *testing.T) {
	for _, tc := range []struct {
		dialect          Dialect
		text, argv, want string
	}{
		{OpenMPI, "-np 1 -x A a\n--timeout 5 -np 2 b : -np 1 c", "-x B --app FILE", `--export=B --timeout=5 | --np=1 --export=A ["a"] | --np=2 ["b"] | --np=1 ["c"]`},
		{Own, "-c 1 a\n-c 2 b", "-app FILE", `| --np=1 ["a"] | --np=2 ["b"]`},
		{Hydra, "a\n-n 2 b", "-f h -configfile FILE", `--hostfile=h | --np=1 ["a"] | --np=2 ["b"]`},
		{Slurm, "0 a\n* b %t", "-n 3 --multi-prog FILE", `--np=3 | --np=1 ["a"] | --np=1 ["b" "1"] | --np=1 ["b" "2"]`},
		{Own, "0-1 a", "--multi-prog FILE", `| --np=2 ["a"]`},
	} {
		got, err := fromFile(t, tc.dialect, tc.text, tc.argv)
		if err != nil || !sameFlags(shownBlocks(got), tc.want) {
			t.Errorf("%s: %s, want %s; %v", tc.argv, shownBlocks(got), tc.want, err)
		}
	}
	if got, err := fromFile(t, OpenMPI, "-np 2 a b", "--quiet --app FILE"); err != nil || strings.Join(got.Args, " ") != "--quiet --np=2 -- a b" || got.Blocks != nil {
		t.Errorf("one program: %q, %v", got.Args, err)
	}
	for _, tc := range []struct{ text, argv, want string }{
		{"a\n-np 1 b", "--app FILE", "programs: a has no -np"},
		{"-np 1 --app x", "--app FILE", "--app stands in the file itself"},
		{"-np 1 a", "--app FILE true", "and true stands after it"},
		{"-np 1 a", "--app FILE : -np 1 b", "--app cannot be combined with other programs"},
		{"-np 1 a", "-np 1 b : --app FILE", "--app cannot be combined with other programs"},
		{"0 a", "--multi-prog", "--multi-prog wants one word"},
		{"0 a", "--multi-prog FILE x", "--multi-prog wants one word"},
		{"", "--app /no/such/file", "no such file"},
	} {
		if _, err := fromFile(t, Own, tc.text, tc.argv); !usage.Is(err) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.argv, err, tc.want)
		}
	}
}
