package inspect

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/sight/stacks"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// interpreters returns the Pythons of this machine by their version, among them those that
// .ci/interpreters has unpacked.
func interpreters(t *testing.T) map[string]string {
	t.Helper()
	home := must.Get(os.UserHomeDir())(t)
	cache := must.Get(os.UserCacheDir())(t)
	all := map[string]string{}
	for _, pattern := range []string{"/usr/bin/python3.*[0-9]", "/usr/local/bin/python3.*[0-9]",
		home + "/.pyenv/versions/*/bin/python3.*[0-9]", cache + "/gorun-ci/interpreters-*/*/usr/bin/python3.*[0-9]"} {
		paths := must.Get(filepath.Glob(pattern))(t)
		for _, path := range paths {
			version, err := exec.Command(path, "-c", "import sys; print(sys.version.split()[0])").Output()
			if err == nil {
				all[strings.TrimSpace(string(version))] = path
			}
		}
	}
	return all
}

// The stacks in the memory of each Python are those that it itself tells. Of those that gorun does
// not know, it says so.
func TestStacksOfPythonsInMemory(t *testing.T) {
	seen := map[string]bool{}
	for version, path := range interpreters(t) {
		minor := regexp.MustCompile(`^3\.\d+`).FindString(version)
		known := !slices.Contains([]string{"3.6", "3.7", "3.8"}, minor)
		seen[minor] = known
		t.Run(version, func(t *testing.T) {
			program := lab.Start(t, exec.Command(path, "testdata/hung.py"))
			var want []stacks.Thread
			for {
				line := must.Get(program.Line())(t)
				if line == "ready" {
					break
				}
				want = append(want, told(t, line))
			}
			own := must.Get(contain.ReadProcess(program.Process.Pid))(t)
			s := newSubject(own, &sources{})
			defer s.close()
			s.trace(t.Context(), false)
			if !known {
				check.Equal(t, s.report.Unknown, "memory: gorun does not know Python before 3.9")
				return
			}
			check.Equal(t, s.report.By, "memory", s.report.Unknown)
			must.That(t, len(s.report.Threads) > 0, "no threads: %s", s.report.Unknown)
			for i, thread := range want {
				text := show([]stacks.Thread{thread})
				same := func(t stacks.Thread) bool {
					t.Name = ""
					return show([]stacks.Thread{t}) == text
				}
				found := slices.IndexFunc(s.report.Threads, same)
				check.That(t, found >= 0 && (i > 0 || found == 0), "thread %d is at place %d\nit says %s\nmemory: %s",
					i, found, text, show(s.report.Threads))
			}
			check.Equal(t, len(s.report.Threads), len(want)+1, "threads")
		})
	}
	for minor := 9; minor <= 15; minor++ {
		if name := fmt.Sprintf("3.%d", minor); !seen[name] {
			t.Logf("there is no Python %s here: .ci/interpreters has 3.13 and later", name)
		}
	}
	must.That(t, len(seen) > 0, "there is no Python")
}

// told returns the stack in a line of testdata/hung.py.
func told(t *testing.T, line string) (thread stacks.Thread) {
	t.Helper()
	var frames [][3]any
	must.OK(t, json.Unmarshal([]byte(line), &frames))
	for _, f := range frames {
		line, _ := f[2].(float64) // null: none
		frame := stacks.Frame{Func: fmt.Sprint(f[0]), File: fmt.Sprint(f[1]), Line: int(line)}
		thread.Frames = append(thread.Frames, frame)
	}
	return thread
}
