package hostfile

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
)

func TestHostlist(t *testing.T) {
	for text, want := range map[string]string{
		"f1":                             "f1",
		"f[1-3]":                         "f1 f2 f3",
		"n[08-11],m5":                    "n08 n09 n10 n11 m5",
		"n[1-3,07-09],m5":                "n1 n2 n3 n07 n08 n09 m5",
		"r[1-2]n[1-2]":                   "r1n1 r1n2 r2n1 r2n2",
		"a[001-002]b,c":                  "a001b a002b c",
		"n[0-1].x.org":                   "n0.x.org n1.x.org",
		"n1-3":                           "n1-3",
		"n[5]":                           "n5",
		"a a,\tb\n":                      "a a b",
		"f[2,1,1]":                       "f2 f1 f1",
		"n[9-10]":                        "n9 n10",
		"n[00-01]":                       "n00 n01",
		"a[1-2][3-4]":                    "a13 a14 a23 a24",
		"n[9999999999998-9999999999999]": "n9999999999998 n9999999999999",
	} {
		got, err := Hostlist("L", text)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
	long := "n[0-65534],x"
	if got, err := Hostlist("L", long); err != nil || len(got) != MaxExpand || got[MaxExpand-2] != "n65534" {
		t.Errorf("%s has %d hosts, %v", long, len(got), err)
	}
}

func TestHostlistErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     `L: no host in it`,
		" , ":                                  `L: no host in it`,
		"a,n[1-2":                              `L:3: "n[1-2": the bracket is not closed`,
		"a n1]":                                `L:3: "n1]": a ] without its [`,
		"n[1-[2]]":                             `"1-[2" is no range of numbers`,
		"n[]":                                  `"" is no range of numbers`,
		"n[1,]":                                `"" is no range of numbers`,
		"n[a-b]":                               `"a-b" is no range of numbers`,
		"n[1-2-3]":                             `"1-2-3" is no range of numbers`,
		"n[-1]":                                `"-1" is no range of numbers`,
		"n[1-10/2]":                            `"1-10/2" is no range of numbers`,
		"n[2-1]":                               `the range 2-1 runs backwards; write 1-2`,
		"n[0-65536]":                           `stands for more than 65536 hosts`,
		"x,n[0-65535]":                         `stands for more than 65536 hosts`,
		"n[0-65535],x":                         `L:12: "x": stands for more than 65536 hosts`,
		"n[1-256][1-257]":                      `stands for more than 65536 hosts`,
		"n[0-9223372036854775807]":             `stands for more than 65536 hosts`,
		"n[99999999999999999999]":              `is no range of numbers`,
		strings.Repeat("x", 254):               `at most 253 characters`,
		"n[" + strings.Repeat("0", 254) + "1]": `at most 253 characters`,
	} {
		got, err := Hostlist("L", text)
		var fault *ParseError
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), want) || got != nil {
			t.Errorf("%.40q is %d hosts, %v; want an error with %s", text, len(got), err, want)
		}
	}
}

func TestCounts(t *testing.T) {
	for text, want := range map[string][]int{
		"1": {1}, "2(x3),1": {2, 2, 2, 1}, "72(x2),36": {72, 72, 36}, "0,5": {0, 5}, "1(x1)": {1}, "010": {10},
	} {
		if got, err := Counts("C", text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": `C:1: expected numbers such as 2(x3),1`, "2,": `C:3: expected`, "x": `C:1: "x": expected`, "1, 2": `C:3: " 2": expected`,
		"2(x0)": `expected`, "2(x3": `expected`, "2(3)": `expected`, "(x3)": `expected`, "-1": `expected`, "65536": `expected`,
		"1(x65537)": `expected`, "1(x65536),1": `C:11: "1": stands for more than 65536 hosts`,
	} {
		if got, err := Counts("C", text); err == nil || !strings.Contains(err.Error(), want) || got != nil {
			t.Errorf("%q is %v, %v; want an error with %s", text, got, err, want)
		}
	}
}

// scontrol returns a function that expands a hostlist by Slurm's own parser.
func scontrol(t testing.TB) func(text string) []string {
	t.Helper()
	lab.Need(t, "scontrol")
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(conf, []byte("ClusterName=t\nSlurmctldHost=localhost\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(text string) []string {
		cmd := exec.CommandContext(t.Context(), "scontrol", "show", "hostnames", text)
		cmd.Env = append(os.Environ(), "SLURM_CONF="+conf)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("scontrol show hostnames %q: %v\n%s", text, err, out)
		}
		return strings.Fields(string(out))
	}
}

// TestHostlistAsSlurmExpandsIt compares with scontrol on lists that Slurm itself can write.
func TestHostlistAsSlurmExpandsIt(t *testing.T) {
	theirs := scontrol(t)
	rnd := rand.New(rand.NewPCG(3, 4))
	var lists []string
	for range 120 {
		lists = append(lists, randomHostlist(rnd))
	}
	for _, text := range append(lists, "n[08-11],m5", "n1-3", "r[1-2]n[01-02]", "a,a,b", "n[5]", "n[98-101,007]", "n[0-300]") {
		ours, err := Hostlist("L", text)
		if want := theirs(text); err != nil || !slices.Equal(ours, want) {
			t.Errorf("%q is %q, %v; scontrol has %q", text, ours, err, want)
		}
	}
}

// randomHostlist has one to three items of up to two brackets, with nothing
// behind the last: older versions of Slurm take nothing there.
func randomHostlist(rnd *rand.Rand) string {
	var items []string
	for range 1 + rnd.IntN(3) {
		item := string(rune('a' + rnd.IntN(26)))
		if rnd.IntN(3) == 0 {
			item += fmt.Sprintf("-%d.x", rnd.IntN(20))
		}
		for range rnd.IntN(3) {
			var spans []string
			for range 1 + rnd.IntN(3) {
				lo, width := rnd.IntN(120), 1+rnd.IntN(4)
				if rnd.IntN(2) == 0 {
					spans = append(spans, fmt.Sprintf("%0*d", width, lo))
					continue
				}
				spans = append(spans, fmt.Sprintf("%0*d-%0*d", width, lo, width, lo+rnd.IntN(9)))
			}
			item += "[" + strings.Join(spans, ",") + "]"
			if rnd.IntN(2) == 0 {
				continue
			}
			break
		}
		items = append(items, item)
	}
	return strings.Join(items, ",")
}

func FuzzHostlist(f *testing.F) {
	for _, s := range []string{"n[08-11],m5", "r[1-2]n[1-2]", "a[001-003]b", "n[1-2", "n]", "a b\tc", "x[0-65535]", "[1-2][3-4]", "n[1-10/2]", ",,a,,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		names, err := Hostlist("L", s)
		if err != nil {
			checkError(t, err, "L", []string{strings.NewReplacer(" ", ",", "\t", ",", "\r", ",", "\n", ",").Replace(s)})
			return
		}
		if len(names) == 0 || len(names) > MaxExpand {
			t.Fatalf("%q is %d hosts", s, len(names))
		}
		for _, name := range names {
			if name == "" || len(name) > 253 || strings.ContainsAny(name, "[], \t\r\n") {
				t.Fatalf("%q has the host %q", s, name)
			}
		}
		again, err := Hostlist("L", strings.Join(names, ","))
		if err != nil || !slices.Equal(again, names) {
			t.Fatalf("%q is %q, which is %q, %v", s, names, again, err)
		}
	})
}

func FuzzCounts(f *testing.F) {
	for _, s := range []string{"2(x3),1", "72(x2),36", "", "1(x65536)", "1,,2", "0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		counts, err := Counts("C", s)
		if err != nil {
			checkError(t, err, "C", []string{s})
			return
		}
		if len(counts) == 0 || len(counts) > MaxExpand {
			t.Fatalf("%q is %d numbers", s, len(counts))
		}
		var plain []string
		for _, n := range counts {
			plain = append(plain, fmt.Sprint(n))
		}
		again, err := Counts("C", strings.Join(plain, ","))
		if err != nil || !slices.Equal(again, counts) {
			t.Fatalf("%q is %v, which is %v, %v", s, counts, again, err)
		}
	})
}

// FuzzDefault checks that no environment breaks gorun, and that hosts it leads to are fit to use.
func FuzzDefault(f *testing.F) {
	for _, name := range inputs(f, "environments", 20) {
		text, parts := sections(f, name)
		delete(parts, "want")
		delete(parts, "")
		for _, file := range parts {
			f.Add(text, file)
		}
		f.Add(text, "")
	}
	f.Fuzz(func(t *testing.T, env, file string) {
		lookup, _ := world(env, nil)
		_, open := world("", map[string]string{"f": file})
		found, err := Default(lookup, func(string) (io.ReadCloser, error) { return open("f") })
		if err != nil || found == nil {
			return
		}
		if found.Source == "" || found.NP < 0 || len(found.Hosts) == 0 {
			t.Fatalf("%+v", found)
		}
		checkHosts(t, found.Hosts)
	})
}
