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

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func TestHostlist(t *testing.T) {
	golden.Cases(t, "testdata/hostlists.txt", func(text string) (string, error) {
		hosts, err := Hostlist("L", text)
		var fault *ParseError
		check.That(t, err == nil || errors.As(err, &fault) && hosts == nil, "%q: %d hosts, %v", text, len(hosts), err)
		return strings.Join(hosts, " "), err
	})
	long := "n[0-65534],x"
	if got, err := Hostlist("L", long); err != nil || len(got) != MaxExpand || got[MaxExpand-2] != "n65534" {
		t.Errorf("%s has %d hosts, %v", long, len(got), err)
	}
	for _, name := range []string{strings.Repeat("x", 254), "n[" + strings.Repeat("0", 254) + "1]"} {
		got, err := Hostlist("L", name)
		check.That(t, err != nil && strings.Contains(err.Error(), "at most 253 characters") && got == nil,
			"a long name: %d hosts, %v", len(got), err)
	}
}

func TestCounts(t *testing.T) {
	for text, want := range map[string][]int{
		"1": {1}, "2(x3),1": {2, 2, 2, 1}, "72(x2),36": {72, 72, 36}, "0,5": {0, 5}, "1(x1)": {1}, "010": {10},
	} {
		got, err := Counts("C", text)
		check.That(t, err == nil && slices.Equal(got, want), "%q is %v, %v; want %v", text, got, err, want)
	}
	for text, want := range map[string]string{
		"": `C:1: expected numbers such as 2(x3),1`, "2,": `C:3: expected`, "x": `C:1: "x": expected`,
		"1, 2":  `C:3: " 2": expected`,
		"2(x0)": `expected`, "2(x3": `expected`, "2(3)": `expected`, "(x3)": `expected`, "-1": `expected`,
		"65536":     `expected`,
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
	must.OK(t, os.WriteFile(conf, []byte("ClusterName=t\nSlurmctldHost=localhost\n"), 0o600))
	return func(text string) []string {
		cmd := exec.CommandContext(t.Context(), "scontrol", "show", "hostnames", text)
		cmd.Env = append(os.Environ(), "SLURM_CONF="+conf)
		out := must.Run(t, cmd)
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
	for _, text := range append(lists, "n[08-11],m5", "n1-3", "r[1-2]n[01-02]", "a,a,b", "n[5]", "n[98-101,007]",
		"n[0-300]") {
		ours, err := Hostlist("L", text)
		want := theirs(text)
		check.That(t, err == nil && slices.Equal(ours, want), "%q is %q, %v; scontrol has %q", text, ours, err, want)
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
				lo := rnd.IntN(120)
				width := 1 + rnd.IntN(4)
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
	for _, s := range []string{"n[08-11],m5", "r[1-2]n[1-2]", "a[001-003]b", "n[1-2", "n]", "a b\tc", "x[0-65535]",
		"[1-2][3-4]", "n[1-10/2]", ",,a,,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		names, err := Hostlist("L", s)
		if err != nil {
			checkError(t, err, "L", []string{strings.NewReplacer(" ", ",", "\t", ",", "\r", ",", "\n", ",").Replace(s)})
			return
		}
		must.That(t, len(names) != 0 && len(names) <= MaxExpand, "%q is %d hosts", s, len(names))
		for _, name := range names {
			must.That(t, name != "" && len(name) <= 253 && !strings.ContainsAny(name, "[], \t\r\n"),
				"%q has the host %q", s, name)
		}
		again, err := Hostlist("L", strings.Join(names, ","))
		must.That(t, err == nil && slices.Equal(again, names), "%q is %q, which is %q, %v", s, names, again, err)
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
		must.That(t, len(counts) != 0 && len(counts) <= MaxExpand, "%q is %d numbers", s, len(counts))
		var plain []string
		for _, n := range counts {
			plain = append(plain, fmt.Sprint(n))
		}
		again, err := Counts("C", strings.Join(plain, ","))
		must.That(t, err == nil && slices.Equal(again, counts), "%q is %v, which is %v, %v", s, counts, again, err)
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
		must.That(t, found.Source != "" && found.NP >= 0 && len(found.Hosts) != 0, "%+v", found)
		checkHosts(t, found.Hosts)
	})
}
