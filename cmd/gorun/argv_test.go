package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// flagSet is gorun's flags, and where their values go.
func flagSet() (*pflag.FlagSet, *runOptions) {
	var o runOptions
	flags := pflag.NewFlagSet("gorun", pflag.ContinueOnError)
	flags.SetInterspersed(false)
	o.addFlags(flags)
	return flags, &o
}

func commands() []string { return []string{"help", "version", "completion"} }

// translated is what becomes of a command line in a dialect.
func translated(t *testing.T, dialect launchers, argv ...string) (translation, error) {
	t.Helper()
	flags, _ := flagSet()
	return translate(argv, dialect, flags, commands())
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
		if err != nil || !slices.Equal(got.args, strings.Fields(tc.want)) || got.notice() != "" {
			t.Errorf("%q: got %q, want %q; %v, notice %q", tc.argv, strings.Join(got.args, " "), tc.want, err, got.notice())
		}
	}
}

func TestTranslateTakesAnEmptyWordForTheProgram(t *testing.T) {
	if got, err := translated(t, Own, "-np", "2", "", "-v"); err != nil || !slices.Equal(got.args, []string{"--np=2", "--", "", "-v"}) {
		t.Errorf("%q, %v", got.args, err)
	}
	if got, err := translated(t, Own, "-x", "", "prog"); err != nil || !slices.Equal(got.args, []string{"--export=", "--", "prog"}) {
		t.Errorf("%q, %v", got.args, err)
	}
}

// A command that runs no program has flags anywhere.
func TestTranslateWordsAnywhere(t *testing.T) {
	flags, _ := flagSet()
	got, err := translateWords([]string{"allreduce", "-np", "4", "-membind", "numa", "x", "-Ha:2", "--"}, flags)
	if err != nil || !slices.Equal(got.args, []string{"allreduce", "--np=4", "x", "--hosts=a:2", "--"}) || got.notice() != "no effect yet: -membind" {
		t.Errorf("%q, %v, %q", got.args, err, got.notice())
	}
	if _, err := translateWords([]string{"-np"}, flags); err == nil {
		t.Error("a value is missing, and nobody said so")
	}
}

// TestTranslatedWordsParse checks that the flag parser reads what was meant.
func TestTranslatedWordsParse(t *testing.T) {
	for _, argv := range []string{
		"-np 4 -H a:2,b:2 -x A prog -np 9 --hosts no",
		"-np=4 -host a:2,b:2 -x=A prog -np 9 --hosts no",
		"--num-proc 4 --host=a:2,b:2 --export A -- prog -np 9 --hosts no",
		"-n4 -vHa:2,b:2 -xA prog -np 9 --hosts no",
		"--num_proc=4 -hosts=a:2,b:2 -x A prog -np 9 --hosts no",
	} {
		flags, o := flagSet()
		line, err := translate(strings.Fields(argv), Own, flags, commands())
		if err == nil {
			err = flags.Parse(line.args)
		}
		if err != nil {
			t.Errorf("%s: %v", argv, err)
			continue
		}
		if o.np != 4 || o.hosts != "a:2,b:2" || !slices.Equal(o.exports, []string{"A"}) || strings.Join(flags.Args(), " ") != "prog -np 9 --hosts no" {
			t.Errorf("%s: np %d, hosts %q, export %q, program %q", argv, o.np, o.hosts, o.exports, flags.Args())
		}
	}
}

// FuzzTranslate checks, for any words in any dialect, that nothing panics, that a mistake
// is one of the user's, and that a program's words come out as they are.
func FuzzTranslate(f *testing.F) {
	f.Add("-np\x004\x00-x\x00A", "prog\x00-np\x00--\x00", byte(0))
	f.Add("-vH\x00a\x00--", "-prog\x00-x", byte(1))
	f.Add("-=\x00--=\x00-\xff\x00-vé", "p", byte(2))
	f.Add("-mca\x00a\x00b\x00-genv\x00A=1\x00-genv\x00A\x001\x00-K0\x00--mpi-args\x00'--mca a b' -np 2", "a\x00:\x00b", byte(3))
	f.Add("--export\x00NONE\x00-t\x001-2:3\x00--dialect\x00srun\x00-m", "", byte(4))
	f.Add("-np\x001\x00a\x00:\x00-np\x002\x00--app\x00f", "a\x00\\:\x00b", byte(1))
	f.Add("--map-by=ppr:2:node:pe=1\x00--output\x00tag,dir=a\x00-prepend-pattern\x00%", "x", byte(5))
	f.Fuzz(func(t *testing.T, anything, theirs string, which byte) {
		dialects := []launchers{Own, OpenMPI, Hydra, Horovod, Slurm, Torch}
		dialect := dialects[int(which)%len(dialects)]
		words, program := strings.Split(anything, "\x00"), strings.Split(theirs, "\x00")
		flags, _ := flagSet()
		got, err := translate(words, dialect, flags, commands())
		checkTranslated(t, words, got, err)
		for _, ours := range [][]string{{"-np", "4", "--"}, {"-np", "4"}} {
			got, err := translate(slices.Concat(ours, program), dialect, flags, commands())
			if len(ours) == 2 && (!isPositional(program[0]) || hasColon(program) || dialect == Torch) {
				continue // it would be a flag, or several programs, or one for Python
			}
			if err != nil || !slices.Equal(got.args, slices.Concat([]string{"--np=4", "--"}, program)) {
				t.Fatalf("%q, then %q: %q, %v", ours, program, got.args, err)
			}
			if err := flags.Parse(got.args); err != nil || !slices.Equal(flags.Args(), program) {
				t.Fatalf("%q: %q, %v", program, flags.Args(), err)
			}
		}
	})
}

// hasColon reports whether a colon among words parts programs, or is marked as one of a program's.
func hasColon(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return w == ":" || w == `\:` })
}

// checkTranslated checks what holds for all translations of words.
func checkTranslated(t *testing.T, words []string, got translation, err error) {
	t.Helper()
	var usage *usageError
	if err != nil {
		if !errors.As(err, &usage) || err.Error() == "" {
			t.Fatalf("%q: %v", words, err)
		}
		return
	}
	end := slices.Index(got.args, "--")
	if end < 0 {
		end = len(got.args)
	}
	if len(words) > 0 && slices.Contains(commands(), words[0]) || slices.Equal(got.args, []string{"version"}) {
		return
	}
	for _, arg := range got.args[:end] {
		if !strings.HasPrefix(arg, "--") {
			t.Fatalf("%q became %q", words, got.args)
		}
	}
	program := got.args[min(end+1, len(got.args)):]
	if len(program) > 1 && program[0] == "python" && program[1] == "-u" {
		return // torchrun's way to start it
	}
	if hasColon(words) {
		return // a program of several, or a colon of its own
	}
	if !slices.Equal(program, words[len(words)-len(program):]) {
		t.Fatalf("%q became %q", words, got.args)
	}
}

func TestNearest(t *testing.T) {
	flags, _ := flagSet()
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	for word, want := range map[string]string{
		"hostfle":                   "hostfile",
		"host-file":                 "hostfile",
		"no-oversubsribe":           "no-oversubscribe",
		"timout":                    "timeout",
		"dryrun":                    "dry-run",
		"verbos":                    "verbose",
		"hosts":                     "hosts",
		"stdn":                      "stdin",
		"mca":                       "",
		"":                          "",
		"something-else-altogether": "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
	if got := nearest("a", nil); got != "" {
		t.Errorf("nearest of nothing is %q", got)
	}
}

func TestEditDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"ab", "ba", 2}} {
		if got := editDistance(tc.a, tc.b); got != tc.want || editDistance(tc.b, tc.a) != tc.want {
			t.Errorf("%q and %q: %d, and back %d, want %d", tc.a, tc.b, got, editDistance(tc.b, tc.a), tc.want)
		}
	}
}
