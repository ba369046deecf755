package settings

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/environ"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

// shown is what a file says: flags with values, then the command.
func listing(s settings) string {
	var parts []string
	for _, v := range s.list {
		for _, value := range v.values {
			parts = append(parts, v.flag+"="+value)
		}
	}
	if s.Command != nil {
		parts = append(parts, fmt.Sprintf("%q", s.Command))
	}
	return strings.Join(parts, " ")
}

func TestParseSettings(t *testing.T) {
	golden.Cases(t, "testdata/files.txt", func(text string) (string, error) {
		flags, _ := NewFlags()
		got, err := parseSettings("f", []byte(text), flags)
		check.That(t, err == nil || usage.Is(err), "%q: %v is no usage error", text, err)
		return listing(got), err
	})
}

// A variable may hold a secret, which no message quotes, also where YAML takes it for something
// else.
func TestBrokenFilesQuoteNoValues(t *testing.T) {
	for _, value := range []string{"*hunter2", "&hunter2 [*hunter2]", "[hunter2]", "{a: hunter2}", "'hunter2",
		"a: hunter2", "@hunter2", "%hunter2", "!hunter2 [a]"} {
		flags, _ := NewFlags()
		_, err := parseSettings("f", []byte("np: 1\nenv:\n  TOKEN: "+value+"\n"), flags)
		check.That(t, usage.Is(err) && !strings.Contains(err.Error()+usage.Hint(err), "hunter2"), "%s: %v", value, err)
	}
}

// Files can set every variable that horovodrun's flags set, and each key has a flag.
func TestHorovodFileKeysMatchItsFlags(t *testing.T) {
	reached := map[string]bool{}
	for _, s := range horovodSections() {
		for _, key := range s.keys {
			for _, value := range []string{"true", "false", "1"} {
				flags, _ := NewFlags()
				got, err := parseSettings("f", []byte(s.name+": {"+key+": "+value+"}"), flags)
				if err != nil {
					continue
				}
				reached[listing(got)] = true
			}
			_, known := dialect.Horovod.Takes(s.word(key))
			check.That(t, known, "%s.%s is no flag of horovodrun's", s.name, key)
		}
	}
	for _, row := range dialect.Rows(dialect.Horovod) {
		sets, found := strings.CutPrefix(row.Means, "--export HOROVOD_")
		if strings.Contains(sets, " ") {
			continue // computed, not set by the user
		}
		check.That(t, !found || reached["export=HOROVOD_"+strings.ReplaceAll(sets, "VALUE", "1")],
			"%s cannot be said in a file", row.Flags)
	}
	text := must.Get(os.ReadFile("../../../../docs/job-files.md"))(t)
	for _, s := range horovodSections() {
		for _, key := range append(s.keys, s.name) {
			check.That(t, strings.Contains(string(text), "`"+strings.ReplaceAll(key, "-", "_")+"`"),
				"docs/job-files.md lacks %s.%s", s.name, key)
		}
	}
	check.That(t, len(reached) >= 30, "%d settings", len(reached))
}

// FuzzSettings checks that no file causes a panic, and that settings are valid or are
// rejected by a usage error.
func FuzzSettings(f *testing.F) {
	f.Add([]byte("np: 4\nhosts: a:2\ngrace: 1e3\nno_oversubscribe: yes\n"))
	f.Add([]byte("a: &a [*a]\n<<: *a"))
	f.Add([]byte("np: 0x10\ntimeout: .inf\nverbose: -1"))
	f.Add([]byte("env: &e {A: *e}\ncommand: [a]\nparams: {cycle_time_ms: NaN}\nprogram: x\nargs: y"))
	f.Fuzz(func(t *testing.T, text []byte) {
		flags, o := NewFlags()
		file, err := parseSettings("f", text, flags)
		if err == nil {
			err = SetDefaults(flags, environ.Lookup(nil), nil, file.relativeTo("d", ""))
		}
		var mistake *usage.Error
		must.That(t, err == nil || errors.As(err, &mistake), "%q: %v", text, err)
		if err == nil {
			_ = o.Check(flags.Changed("np"))
		}
	})
}
