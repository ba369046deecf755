package python

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
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
	must.That(t, err == nil && strings.Contains(text, "all right"), "%v\n%s", err, text)
	for _, want := range []string{"f1:0: hello from 0\n", "f2:3: hello from 3\n", "f2:2: unfinished\\\n"} {
		check.That(t, strings.Count(text, want) == 1, "%q is not in\n%s", want, text)
	}
}

// Without gorun.run() the program of its ranks says what it is.
func TestTaskAlone(t *testing.T) {
	needs(t, "pickle")
	cmd := exec.CommandContext(t.Context(), interpreter, "-m", "gorun._task")
	out, _ := cmd.CombinedOutput()
	check.That(t, cmd.ProcessState.ExitCode() == 2 && strings.Contains(string(out), "part of gorun.run()"),
		"exit code %d: %s", cmd.ProcessState.ExitCode(), out)
}

// What a rank sends is data, and concerns its own result only.
func TestRunWithHostileRank(t *testing.T) {
	needs(t, "pickle")
	cmd := exec.CommandContext(t.Context(), interpreter, script(t, "run_hostile.py"))
	cmd.Env = append(os.Environ(), "GORUN_PROGRAM="+filepath.Join(os.Getenv("GORUN_TEST_BIN"), "gorun"))
	out, err := cmd.CombinedOutput()
	must.That(t, err == nil && strings.HasSuffix(string(out), "all right\n"), "%v\n%s", err, out)
	for _, want := range []string{"localhost:1: said before data 0 0 1 ", "localhost:1: said before pickle 2 0 1 "} {
		check.That(t, strings.Count(string(out), want) == 1, "%q is not in what the rank has printed:\n%s", want, out)
	}
}

// A rank takes modules from the current directory only if its caller does.
func TestRunTakesNoModulesOfOthers(t *testing.T) {
	needs(t, "pickle")
	cmd := exec.CommandContext(t.Context(), interpreter, script(t, "run_here.py"))
	cmd.Env = append(os.Environ(), "GORUN_PROGRAM="+filepath.Join(os.Getenv("GORUN_TEST_BIN"), "gorun"))
	out, err := cmd.CombinedOutput()
	check.That(t, err == nil && string(out) == "all right\n", "%v\n%s", err, out)
}

// Nor does PYTHONPATH, which a caller with -I ignores, give a rank the current directory.
func TestRunPassesOnNoFolderOfOthers(t *testing.T) {
	const show = `
import os, sys
from gorun import _run
os.environ["PYTHONPATH"] = ":/opt:lib:."
sys.path[:] = [path for path in sys.path if path]
print(_run._environ()["PYTHONPATH"])
sys.path.append(os.path.realpath("lib"))
print(_run._environ()["PYTHONPATH"])
sys.path.append("")
print(_run._environ()["PYTHONPATH"])
`
	cmd := exec.CommandContext(t.Context(), interpreter, "-c", show)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	check.That(t, err == nil && string(out) == "/opt\n/opt:lib\n:/opt:lib:.\n", "%v\n%s", err, out)
}

// gorun is not taken from the current directory, if PATH has that or an empty entry.
func TestRunTakesNoProgramOfTheCurrentDirectory(t *testing.T) {
	const find = `
from gorun import _checkout, _run, errors
_checkout.find = lambda name: None
_run.sysconfig.get_path = lambda name: "/nonexistent"
try:
    print(_run.find_gorun())
except errors.GorunError as e:
    print(e)
`
	dir := t.TempDir()
	folder := t.TempDir()
	for _, in := range []string{dir, folder} {
		must.OK(t, os.WriteFile(filepath.Join(in, "gorun"), []byte("#!/bin/sh\n"), 0o755))
	}
	for path, want := range map[string]string{
		".": "no gorun on the PATH", "::.": "no gorun on the PATH", ".:" + folder: filepath.Join(folder, "gorun"),
	} {
		cmd := exec.CommandContext(t.Context(), interpreter, "-c", find)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GORUN_PROGRAM=", "PATH="+path)
		out, err := cmd.CombinedOutput()
		check.That(t, err == nil && strings.Contains(string(out), want), "PATH=%s: %v: %s", path, err, out)
	}
}

// Results are those of the folder that was made, also if the folder of temporary files is another
// user's, who can put others in its place.
func TestRunReadsTheFolderThatItMade(t *testing.T) {
	needs(t, "pickle")
	const replaced = `
import os, pickle, gorun
from gorun import _data, _run
launch = _run._launch
def replace(words, env, payload):
    code = launch(words, env, payload)
    folder = words[words.index("--result-dir") + 1]
    os.rename(folder, folder + ".own")
    os.makedirs(folder + "/rank.0")
    with open(folder + "/rank.0/result", "wb") as result:
        result.write(_data.dump(("pickle", pickle.dumps("of another user"))))
    return code
_run._launch = replace
print(gorun.run(max, (1, 2), np=1, results="pickle"))
`
	cmd := exec.CommandContext(t.Context(), interpreter, "-c", replaced)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(),
		"GORUN_PROGRAM="+filepath.Join(os.Getenv("GORUN_TEST_BIN"), "gorun"))
	out, err := cmd.CombinedOutput()
	check.That(t, err == nil && string(out) == "[2]\n", "%v: %s", err, out)
}

// Nor is anything removed in a folder of the caller's that another user has put there, before or
// after the folder of results was opened.
func TestRunRemovesOnlyTheFolderThatItMade(t *testing.T) {
	needs(t, "pickle")
	const replaced = `
import os, sys, tempfile, gorun
from gorun import _run
def put(folder):
    os.rename(folder, folder + ".own")
    os.rename(os.environ["TMPDIR"] + "/data", folder)
mkdtemp, launch = tempfile.mkdtemp, _run._launch
def made(prefix):
    folder = mkdtemp(prefix=prefix)
    if sys.argv[1] == "before":
        put(folder)
    return folder
def ended(words, env, payload):
    code = launch(words, env, payload)
    if sys.argv[1] == "after":
        put(words[words.index("--result-dir") + 1])
    return code
tempfile.mkdtemp, _run._launch = made, ended
try:
    print(gorun.run(max, (1, 2), np=1))
except gorun.errors.GorunError as e:
    print(e)
`
	for when, want := range map[string]struct{ says, left string }{
		"never":  {"[2]\n", "data/sub/precious"},
		"before": {"set TMPDIR to a folder of yours", "gorun-*/sub/precious"},
		"after":  {"[2]\n", "gorun-*/sub/precious"},
	} {
		dir := t.TempDir()
		must.OK(t, os.MkdirAll(filepath.Join(dir, "data", "sub"), 0o700))
		must.OK(t, os.WriteFile(filepath.Join(dir, "data", "sub", "precious"), nil, 0o600))
		cmd := exec.CommandContext(t.Context(), interpreter, "-c", replaced, when)
		cmd.Env = append(os.Environ(), "TMPDIR="+dir,
			"GORUN_PROGRAM="+filepath.Join(os.Getenv("GORUN_TEST_BIN"), "gorun"))
		out, err := cmd.CombinedOutput()
		check.That(t, err == nil && strings.Contains(string(out), want.says), "%s: %v: %s", when, err, out)
		left, _ := filepath.Glob(filepath.Join(dir, want.left))
		check.Equal(t, len(left), 1, "replaced", when, "precious files")
		own, _ := filepath.Glob(filepath.Join(dir, "gorun-*"))
		check.That(t, when != "never" || len(own) == 0, "it left %q", own)
	}
}

// Results are of many types, and reading them runs no code.
func TestRunData(t *testing.T) {
	needs(t, "numpy")
	out, err := exec.CommandContext(t.Context(), interpreter, script(t, "run_data.py")).CombinedOutput()
	check.That(t, err == nil && string(out) == "all right\n", "%v\n%s", err, out)
}

// A program whose standard output takes few characters shows what it can of what the ranks say.
func TestRunShowsWhatItCan(t *testing.T) {
	needs(t, "pickle")
	const show = `
import io, sys
from gorun._run import _show
_show(io.BytesIO("f1:0: na\u00efve \u2713\n".encode()), sys.stdout)
`
	cmd := exec.CommandContext(t.Context(), interpreter, "-c", show)
	cmd.Env = append(os.Environ(), "PYTHONIOENCODING=iso-8859-1")
	out, err := cmd.CombinedOutput()
	check.That(t, err == nil && string(out) == "f1:0: na\xefve ?\n", "%v: %q", err, out)
}

// A rank whose line does not end fills no memory of the program that called gorun.run.
func TestRunShowsLongLinesInParts(t *testing.T) {
	needs(t, "pickle")
	const show = `
import io
from gorun import _run
class To:
    encoding = "utf-8"
    longest = 0
    text = ""
    def write(self, text):
        self.longest = max(self.longest, len(text))
        self.text += text
    def flush(self): pass
to = To()
said = "x" + "\u2713" * (1 << 20) + "\nnext\n"
_run._show(io.BytesIO(said.encode() + b"\xe2"), to)
print(to.text == said + "\ufffd", to.longest)
`
	out, err := exec.CommandContext(t.Context(), interpreter, "-c", show).CombinedOutput()
	same, longest, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	n, nerr := strconv.Atoi(longest)
	check.That(t, err == nil && nerr == nil && same == "True" && n <= 64<<10, "%v: %s", err, out)
}

// Of the calls between ranks only those that promise objects unpickle.
func TestOnlyObjectsAreUnpickled(t *testing.T) {
	needs(t, "numpy")
	lines := succeed(t, nil, "-np", "2", "--prefix", "none", interpreter, script(t, "objects_trust.py"),
		filepath.Join(t.TempDir(), "mark"))
	check.That(t, strings.Join(lines, "|") == "all right|all right", "%q", lines)
}
