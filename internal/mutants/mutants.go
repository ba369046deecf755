// Package mutants holds gorun's tests to their word: a list of one-place breakages of gorun, each
// of which some test must catch. `make mutants` tries all of them; a few are tried with every commit.
package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Mutant is one breakage.
type Mutant struct {
	Name string // what is broken
	File string // below the module's root
	Old  string // text that is in the file exactly once,
	New  string // and what takes its place
	Pkg  string // whose tests must fail,
	Run  string // those that this matches
}

// Apply returns the text of a mutant's file with its breakage. It is pure.
func (m Mutant) Apply(text string) (string, error) {
	if n := strings.Count(text, m.Old); n != 1 {
		return "", fmt.Errorf("mutant %q: its text is in %s %d times, not once: look what has become of it", m.Name, m.File, n)
	}
	return strings.Replace(text, m.Old, m.New, 1), nil
}

// Verdict is what became of a mutant.
type Verdict struct {
	Mutant Mutant
	Caught bool
	Took   time.Duration
	Output string // of the tests
	Err    error  // it could not be tried
}

// Try runs a mutant's tests on the module at root with the breakage laid over it; no file of the
// module is changed.
func Try(ctx context.Context, root string, m Mutant) (v Verdict) {
	began := time.Now()
	v.Mutant = m
	defer func() { v.Took = time.Since(began) }()
	dir, err := os.MkdirTemp("", "gorun-mutant-")
	if err != nil {
		v.Err = err
		return v
	}
	defer os.RemoveAll(dir)
	overlay, err := m.lay(root, dir)
	if err != nil {
		v.Err = err
		return v
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-timeout", "90s", "-run", m.Run, m.Pkg)
	cmd.Dir = root
	// By the environment, so that it holds for what tests build, too.
	cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	v.Output = string(out)
	v.Caught, v.Err = judge(v.Output, err)
	if ctx.Err() != nil {
		v.Caught, v.Err = false, context.Cause(ctx)
	}
	return v
}

// judge tells a failed test from one that could not be run. It is pure.
func judge(output string, ran error) (caught bool, err error) {
	var status *exec.ExitError
	switch {
	case strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]"):
		return false, errors.New("it does not compile, so no test has caught it")
	case strings.Contains(output, "[no tests to run]"):
		return false, errors.New("no test has the name that should catch it")
	case ran == nil:
		return false, nil
	case !errors.As(ran, &status):
		return false, ran
	case !strings.Contains(output, "--- FAIL") && !strings.Contains(output, "panic:"):
		return false, fmt.Errorf("go test failed, but no test: %w", ran)
	}
	return true, nil
}

// lay writes the broken file and go's overlay that puts it in place.
func (m Mutant) lay(root, dir string) (overlay string, err error) {
	original, err := filepath.Abs(filepath.Join(root, m.File))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return "", fmt.Errorf("mutant %q: %w", m.Name, err)
	}
	broken, err := m.Apply(string(text))
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "broken.go")
	if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	table, err := json.Marshal(map[string]map[string]string{"Replace": {original: file}})
	if err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, table, 0o600)
}
