package main

import (
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

func TestNormalize(t *testing.T) {
	for _, tc := range []struct{ argv, want string }{
		{"", ""},
		{"prog", "-- prog"},
		{"prog -np 4 --hosts a -x -- -v", "-- prog -np 4 --hosts a -x -- -v"},
		{"./a/prog", "-- ./a/prog"},
		{"- x", "-- - x"},
		{"-np 4 prog -n 8", "--np 4 -- prog -n 8"},
		{"-np=4 prog", "--np=4 -- prog"},
		{"-n 4 prog", "-n 4 -- prog"},
		{"-n4 prog", "-n4 -- prog"},
		{"--np 4 prog", "--np 4 -- prog"},
		{"--np=4 prog", "--np=4 -- prog"},
		{"--num-proc 4 prog", "--num-proc 4 -- prog"},
		{"--num_proc 4 prog", "--num_proc 4 -- prog"},
		{"-H a:2 prog", "-H a:2 -- prog"},
		{"-Ha:2 prog", "-Ha:2 -- prog"},
		{"-H=a:2 prog", "-H=a:2 -- prog"},
		{"-host a:2,b prog", "--hosts a:2,b -- prog"},
		{"-hosts a:2,b prog", "--hosts a:2,b -- prog"},
		{"--host a prog", "--host a -- prog"},
		{"-hostfile f prog", "--hostfile f -- prog"},
		{"-machinefile f prog", "--hostfile f -- prog"},
		{"-hostfile=f prog", "--hostfile=f -- prog"},
		{"-wdir /w prog", "--wdir /w -- prog"},
		{"-wd /w prog", "--wdir /w -- prog"},
		{"-wd=/w=x prog", "--wdir=/w=x -- prog"},
		{"-vH a prog", "-vH a -- prog"},
		{"-vvHa prog", "-vvHa -- prog"},
		{"-v prog", "-v -- prog"},
		{"--verbose prog", "--verbose -- prog"},
		{"--dry-run prog", "--dry-run -- prog"},
		{"--tag-output prog", "--tag-output -- prog"},
		{"-x A -x B=1 prog", "-x A -x B=1 -- prog"},
		{"-x -y prog", "-x -y -- prog"},
		{"-H -- prog", "-H -- -- prog"},
		{"-np 2 -- prog -np 3", "--np 2 -- prog -np 3"},
		{"-- -prog", "-- -prog"},
		{"-np 2 -- -- prog", "--np 2 -- -- prog"},
		{"--nope prog", "--nope -- prog"},
		{"--nope=1 prog", "--nope=1 -- prog"},
		{"-Z prog", "-Z -- prog"},
		{"-np", "--np"},
		{"-v -H", "-v -H"},
		{"--help", "--help"},
		{"-h prog", "-h -- prog"},
		{"version", "version"},
		{"help version", "help version"},
		{"completion bash", "completion bash"},
		{"-v version", "-v -- version"},
		{"-- version", "-- version"},
		{"prog version", "-- prog version"},
	} {
		flags, _ := flagSet()
		got := normalize(strings.Fields(tc.argv), flags, commands())
		if !slices.Equal(got, strings.Fields(tc.want)) {
			t.Errorf("%q: got %q, want %q", tc.argv, strings.Join(got, " "), tc.want)
		}
	}
}

func TestNormalizeTakesAnEmptyWordForTheProgram(t *testing.T) {
	flags, _ := flagSet()
	if got := normalize([]string{"-np", "2", "", "-v"}, flags, commands()); !slices.Equal(got, []string{"--np", "2", "--", "", "-v"}) {
		t.Errorf("%q", got)
	}
	if got := normalize([]string{"-x", "", "prog"}, flags, commands()); !slices.Equal(got, []string{"-x", "", "--", "prog"}) {
		t.Errorf("%q", got)
	}
}

// TestNormalizedWordsParse checks that the flag parser reads what was meant.
func TestNormalizedWordsParse(t *testing.T) {
	for _, argv := range []string{
		"-np 4 -H a:2,b:2 -x A prog -np 9 --hosts no",
		"-np=4 -host a:2,b:2 -x=A prog -np 9 --hosts no",
		"--num-proc 4 --host=a:2,b:2 --export A -- prog -np 9 --hosts no",
		"-n4 -vHa:2,b:2 -xA prog -np 9 --hosts no",
		"--num_proc=4 -hosts=a:2,b:2 -x A prog -np 9 --hosts no",
	} {
		flags, o := flagSet()
		if err := flags.Parse(normalize(strings.Fields(argv), flags, commands())); err != nil {
			t.Errorf("%s: %v", argv, err)
			continue
		}
		if o.np != 4 || o.hosts != "a:2,b:2" || !slices.Equal(o.exports, []string{"A"}) || strings.Join(flags.Args(), " ") != "prog -np 9 --hosts no" {
			t.Errorf("%s: np %d, hosts %q, export %q, program %q", argv, o.np, o.hosts, o.exports, flags.Args())
		}
	}
}

// FuzzNormalize checks, for any words, that a program's words come out as they are, and
// that of the others only those are changed that are known, and at most one -- is added.
func FuzzNormalize(f *testing.F) {
	f.Add("-np\x004\x00-x\x00A", "prog\x00-np\x00--\x00")
	f.Add("-vH\x00a\x00--", "-prog\x00-x")
	f.Add("-=\x00--=\x00-\xff\x00-vé", "p")
	f.Fuzz(func(t *testing.T, anything, theirs string) {
		words, program := strings.Split(anything, "\x00"), strings.Split(theirs, "\x00")
		flags, _ := flagSet()
		checkWords(t, words, normalize(words, flags, commands()))
		for _, ours := range [][]string{{"-np", "4", "-v", "--"}, {"-np", "4", "-v"}} {
			if len(ours) == 3 && strings.HasPrefix(program[0], "-") && program[0] != "-" {
				continue // it would be a flag
			}
			got := normalize(slices.Concat(ours, program), flags, commands())
			if !slices.Equal(got, slices.Concat([]string{"--np", "4", "-v", "--"}, program)) {
				t.Fatalf("%q, then %q: %q", ours, program, got)
			}
			if err := flags.Parse(got); err != nil || !slices.Equal(flags.Args(), program) {
				t.Fatalf("%q: %q, %v", program, flags.Args(), err)
			}
		}
	})
}

func checkWords(t *testing.T, words, got []string) {
	t.Helper()
	i, added := 0, false
	for _, g := range got {
		switch {
		case i < len(words) && g == words[i]:
			i++
		case i < len(words) && !added && renamed(words[i], g):
			i++
		case g == "--" && !added:
			added = true
		default:
			t.Fatalf("%q became %q", words, got)
		}
	}
	if i != len(words) {
		t.Fatalf("%q became %q", words, got)
	}
}

func renamed(from, to string) bool {
	name, value, _ := strings.Cut(strings.TrimPrefix(from, "-"), "=")
	long, known := longWords()[name]
	return known && (to == "--"+long || to == "--"+long+"="+value)
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
