package settings

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

// given lists the flags that are set, and the binding if a flag changes it.
func given(flags *pflag.FlagSet, o *Options) string {
	var parts []string
	flags.Visit(func(f *pflag.Flag) { parts = append(parts, f.Name+"="+f.Value.String()) })
	_, unset := NewFlags()
	if b := o.Binding(); b != unset.Binding() {
		var fields []string
		for at, v := reflect.TypeOf(b), reflect.ValueOf(b); len(fields) < at.NumField(); {
			fields = append(fields, fmt.Sprintf("%s:%v", at.Field(len(fields)).Name, v.Field(len(fields)).Interface()))
		}
		fields = slices.DeleteFunc(fields, func(f string) bool {
			return strings.HasSuffix(f, ":") || strings.HasSuffix(f, ":0") || strings.HasSuffix(f, ":false")
		})
		parts = append(parts, "{"+strings.Join(fields, " ")+"}")
	}
	return strings.Join(parts, " ")
}

// parse reads flags as gorun does.
func parse(argv []string) (*pflag.FlagSet, *Options, error) {
	flags, o := NewFlags()
	if err := ExplainUsage(flags.Parse(argv), nil); err != nil {
		return nil, nil, err
	}
	return flags, o, o.Check(flags.Changed("np"))
}

func TestOptions(t *testing.T) {
	golden.Cases(t, "testdata/options.txt", func(line string) (string, error) {
		argv, err := usage.SplitShell(line)
		if err != nil {
			return "", err
		}
		flags, o, err := parse(argv)
		if err != nil {
			check.That(t, usage.Is(err), "%s: %v is no usage error", line, err)
			return "", err
		}
		return given(flags, o), nil
	})
}

func FuzzSeconds(f *testing.F) {
	for _, s := range []string{"90", "1h30m", "-1", "1e309", "NaN", "0x1p-2", "1_000", "9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s Seconds
		if err := s.Set(text); err != nil {
			return
		}
		must.That(t, s >= 0 && time.Duration(s) <= 10*365*24*time.Hour, "%q is %v", text, time.Duration(s))
		var again Seconds
		if err := again.Set(s.String()); err != nil || again != s {
			t.Fatalf("%q is shown as %q, which is %v, %v", text, s.String(), time.Duration(again), err)
		}
	})
}

func TestFlagDefaults(t *testing.T) {
	flags, o := must.GetTwo(parse(nil))(t)
	if time.Duration(o.StartTimeout) != time.Minute || time.Duration(o.Grace) != 5*time.Second || o.Timeout != 0 ||
		o.Stdin.String() != "0" || o.Prefix != "host" || o.HostKeys != "strict" {
		t.Errorf("%+v", *o)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		check.That(t, f.Usage != "" && !strings.HasSuffix(f.Usage, ".") &&
			(f.Usage[:1] == strings.ToLower(f.Usage[:1]) || f.Usage[:3] == "SSH" || f.Usage[:4] == "YAML"),
			"--%s: %q", f.Name, f.Usage)
	})
}

// --show selects ranks that the job has.
func TestRanksFilter(t *testing.T) {
	ranks := Ranks{{0, 0}, {8, 11}}
	show := must.Get(ranks.Filter(12))(t)
	for rank := range 12 {
		want := rank == 0 || rank >= 8
		check.That(t, show(rank) == want, "rank %d is shown: %v", rank, !want)
	}
	_, err := ranks.Filter(11)
	check.That(t, usage.Is(err) && strings.Contains(err.Error(), "no rank 11") &&
		strings.Contains(usage.Hint(err), "0 to 10"), "a rank outside the job: %v", err)
	if show, err := Ranks(nil).Filter(2); show != nil || err != nil {
		t.Errorf("no ranks named: %v", err)
	}
}

// Every flag whose help speaks of a file or folder of this machine is a path: a job file's value is
// resolved beside it.
func TestEveryFlagOfAFileIsAPath(t *testing.T) {
	notHere := map[string]string{
		"config-file":           "no job file may name another",
		"config":                "no job file may name another",
		"stage-env-dir":         "a folder on the hosts",
		"stage-back":            "patterns on the hosts",
		"host-discovery-script": "a command line of the shell",
		"tool":                  "a command line",
	}
	speaks := regexp.MustCompile(`(?i)\b(file|files|folder|dir|directory|prefix that|private key)\b`)
	flags, _ := NewFlags()
	count := 0
	for name, f := range FlagsByName() {
		count++
		_, excepted := notHere[name]
		check.That(t, !speaks.MatchString(f.Usage) || f.Path != nil || excepted || !f.hasText(),
			"--%s names a file, and is no path: %s", name, f.Usage)
		check.That(t, f.Path == nil || f.hasText(), "--%s is a path, and takes no text", name)
		if f.Path == nil {
			continue
		}
		file := must.Get(parseSettings("jobs/j", []byte(name+": x"), flags))(t)
		got := listing(file.relativeTo("jobs", ""))
		check.That(t, got == name+"=jobs/x", "--%s: a job file's x is %s", name, got)
	}
	check.That(t, count == len(allNames(flags)), "%d flags in the table, %d defined", count, len(allNames(flags)))
}

// hasText reports flags that take texts, not numbers and choices.
func (f Flag) hasText() bool {
	switch f.To.(type) {
	case *string, *[]string:
		return true
	}
	return false
}

func allNames(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}
