package python

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
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

// A rank that is killed while it tells its outcome has told none; what others say after it is shown and heard.
func TestRunOutcomeCutShort(t *testing.T) {
	needs(t, "pickle")
	const check = `
import base64, pickle
from gorun._run import Outcomes
o = Outcomes("WORD")
data = base64.b64encode(pickle.dumps((True, 7))).decode()
for cut in ("", "0", "0 0", "0 0 1", "0 0 1 " + data[:5], "0 0 1 " + data[:8], "0 0 1 " + data, "0 0 1 " + data + " WO"):
    assert o.take("f1:0: WORD " + cut + "\n") is None, cut
    assert o.take("f1:0: unfinished WORD " + cut + "\n") == "f1:0: unfinished \n", cut
    assert o.of(0) is None, cut
assert o.take("f1:1: WORD 1 0 1 " + data + " WORD\n") is None and o.of(1) == (True, 7)
assert o.take("f1:1: goes on\n") == "f1:1: goes on\n"
`
	if out, err := exec.CommandContext(t.Context(), interpreter, "-c", check).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// A large outcome goes in lines that no other rank's can come between: gorun keeps lines of 64 KiB together, and a pipe takes
// 4 KiB at once.
func TestRunOutcomeLines(t *testing.T) {
	needs(t, "pickle")
	const say = `
import pickle
from gorun._task import tell
tell("0123456789abcdef0123456789abcdef", pickle.dumps((True, "x" * 100000)))
`
	const hear = `
import sys
from gorun._run import Outcomes
o = Outcomes("0123456789abcdef0123456789abcdef")
assert [o.take("f1:0: " + line) for line in sys.stdin].count(None) > 1
assert o.of(0) == (True, "x" * 100000)
`
	said, err := exec.CommandContext(t.Context(), interpreter, "-c", say).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(said)) {
		if len(line) > 4<<10 {
			t.Fatalf("a line of %d bytes", len(line))
		}
	}
	cmd := exec.CommandContext(t.Context(), interpreter, "-c", hear)
	cmd.Stdin = bytes.NewReader(said)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// A program whose standard output takes few characters shows what it can of what the ranks say.
func TestRunShowsWhatItCan(t *testing.T) {
	needs(t, "pickle")
	const check = `
import io, sys
from gorun._run import _show
_show(io.BytesIO("f1:0: na\u00efve \u2713\n".encode()), None, sys.stdout)
`
	cmd := exec.CommandContext(t.Context(), interpreter, "-c", check)
	cmd.Env = append(os.Environ(), "PYTHONIOENCODING=iso-8859-1")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "f1:0: na\xefve ?\n" {
		t.Errorf("%v: %q", err, out)
	}
}
