package python

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/lab"
)

// A program makes ranks of its own functions, on other hosts as well.
func TestRun(t *testing.T) {
	needs(t, "cloudpickle")
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := c.Command(ctx, interpreter, script(t, "run.py"), "-F", c.ConfigFile, "-H", "f1:2,f2:2", "-x", "PYTHONPATH")
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, "GORUN_PROGRAM="+filepath.Join(os.Getenv("GORUN_TEST_BIN"), "gorun"))
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil || !strings.Contains(text, "all right") {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, want := range []string{"f1:0: hello from 0\n", "f2:3: hello from 3\n", "f2:2: unfinished\n"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "gASV") { // how a pickle begins in base64
		t.Errorf("a result was shown:\n%s", text)
	}
}

// Without the word of gorun.run() on its standard input the program of its ranks says what it is.
func TestTaskAlone(t *testing.T) {
	needs(t, "pickle")
	cmd := exec.CommandContext(t.Context(), interpreter, "-m", "gorun._task")
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "part of gorun.run()") {
		t.Errorf("exit code %d: %s", cmd.ProcessState.ExitCode(), out)
	}
}
