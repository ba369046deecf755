package mutants

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// A mutant whose text has changed, or whose tests have another name now, breaks nothing any more.
func TestMutantsDoNotRot(t *testing.T) {
	seen := map[string]bool{}
	all := All()
	for _, m := range all {
		text, err := os.ReadFile(filepath.Join(root, m.File))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := m.Apply(string(text)); err != nil {
			t.Error(err)
		}
		if seen[m.Name] || m.Old == m.New {
			t.Errorf("mutant %q is there twice, or changes nothing", m.Name)
		}
		seen[m.Name] = true
		if !hasTest(t, m) {
			t.Errorf("mutant %q: %s has no test for %s", m.Name, m.Pkg, m.Run)
		}
	}
	if len(all) < 40 {
		t.Errorf("%d mutants", len(all))
	}
}

// hasTest reports whether a mutant's package has a test that its pattern matches.
func hasTest(t *testing.T, m Mutant) bool {
	files, _ := filepath.Glob(filepath.Join(root, m.Pkg, "*_test.go"))
	pattern := regexp.MustCompile(m.Run)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)`).FindAllStringSubmatch(string(text), -1) {
			if pattern.MatchString(match[1]) {
				return true
			}
		}
	}
	return false
}

func TestApplyWantsOnePlace(t *testing.T) {
	m := Mutant{Name: "m", File: "f", Old: "a", New: "b"}
	for text, want := range map[string]string{"xax": "xbx", "xx": "0 times", "aa": "2 times"} {
		got, err := m.Apply(text)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestJudge(t *testing.T) {
	failed := exec.Command("false").Run()
	for name, tc := range map[string]struct {
		output string
		ran    error
		caught bool
		err    bool
	}{
		"a test fails":     {"--- FAIL: TestX\nFAIL", failed, true, false},
		"a test panics":    {"panic: oh\nFAIL", failed, true, false},
		"all pass":         {"ok pkg 1s", nil, false, false},
		"does not compile": {"FAIL pkg [build failed]", failed, false, true},
		"no such test":     {"ok pkg 1s [no tests to run]", nil, false, true},
		"no go":            {"", errors.New("no such file"), false, true},
		"something else":   {"go: no module", failed, false, true},
	} {
		if caught, err := judge(tc.output, tc.ran); caught != tc.caught || (err != nil) != tc.err {
			t.Errorf("%s: caught %v, %v", name, caught, err)
		}
	}
}
