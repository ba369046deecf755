package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTimesBeforeLines(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--timestamp"}, `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} localhost:0: hi\n$`},
		{[]string{"--prefix-timestamp", "--prefix", "horovod"}, `^\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\[0\]<stdout>:hi\n$`},
		{[]string{"--prefix", "%l at %t: "}, `^0 at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}: hi\n$`},
	} {
		r := start(t, nil, append(tc.args, "echo", "hi")...).want(0)
		if !regexp.MustCompile(tc.want).MatchString(r.out.String()) || r.err.Len() > 0 {
			t.Errorf("%q: %q, stderr %q", tc.args, &r.out, &r.err)
		}
	}
}

func TestOutputOfSomeRanks(t *testing.T) {
	r := start(t, nil, "-np", "5", "--show", "1,3-4", "sh", "-c", "echo out; echo err >&2").want(0)
	got := r.lines()
	slices.Sort(got)
	if want := []string{"localhost:1: out", "localhost:3: out", "localhost:4: out"}; !slices.Equal(got, want) {
		t.Errorf("stdout: %q", got)
	}
	if n := strings.Count(r.err.String(), "err"); n != 3 {
		t.Errorf("stderr: %q", &r.err)
	}
	start(t, nil, "-np", "2", "--show", "2", "true").want(2, "there is no rank 2", "0 to 1")
	start(t, nil, "--show", "two", "true").want(2, `--show "two"`, "0,8-11")
}

func TestUnfinishedLinesAreMarked(t *testing.T) {
	if r := start(t, nil, "printf", `a\nb`).want(0); r.out.String() != "localhost:0: a\nlocalhost:0: b\\\n" {
		t.Errorf("%q", &r.out)
	}
	for _, style := range []string{"none", "mpirun"} {
		if r := start(t, nil, "--prefix", style, "printf", `b`).want(0); strings.Contains(r.out.String(), `\`) {
			t.Errorf("%s: %q", style, &r.out)
		}
	}
}

// Lines of both streams stay complete in one merged output.
func TestMergedOutputKeepsLinesWhole(t *testing.T) {
	script := "i=0; while [ $i -lt 300 ]; do printf out; printf err >&2; printf 'put\\n'; printf 'or\\n' >&2; i=$((i+1)); done"
	r := start(t, nil, "-np", "2", "--prefix", "rank", "--merge-stderr", "sh", "-c", script).want(0)
	if r.err.Len() > 0 {
		t.Errorf("stderr: %q", &r.err)
	}
	whole := regexp.MustCompile(`^\[[01]\] (output|error)$`)
	lines := r.lines()
	for _, line := range lines {
		if !whole.MatchString(line) {
			t.Errorf("%q is no whole line", line)
		}
	}
	if len(lines) != 1200 {
		t.Errorf("%d lines", len(lines))
	}
}

func TestFailureIsExplained(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	r := start(t, nil, "-np", "3", "--output-filename", dir, "--summary", "sh", "-c",
		"[ $RANK = 1 ] || exec sleep 60; echo one >&2; echo 'the reason' >&2; kill -KILL $$").want(137,
		"gorun: error: rank 1 on localhost was killed by signal 9 (SIGKILL) (after ", "gorun: rank 1 stderr: the reason", "its output is in "+dir+"/rank.1/stderr",
		"stopped the other ranks (2 of 3", "hint: ", "dmesg", "rank  host", "SIGKILL, the first to fail", "SIGTERM, stopped by gorun", "exit code 137")
	if n := strings.Count(r.err.String(), "gorun: "); n > 6+5 {
		t.Errorf("%d lines:\n%s", n, &r.err)
	}
	var index struct {
		Code  int
		Ranks []struct {
			Stderr struct {
				Path  string
				Bytes int
			}
			Exit struct{ Signal int }
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err == nil {
		err = json.Unmarshal(text, &index)
	}
	if err != nil || index.Code != 137 || len(index.Ranks) != 3 || index.Ranks[1].Stderr.Path != "rank.1/stderr" || index.Ranks[1].Stderr.Bytes != 15 || index.Ranks[1].Exit.Signal != 9 {
		t.Errorf("%v, %s", err, text)
	}
	if r := start(t, nil, "-np", "2", "--quiet", "sh", "-c", "[ $RANK = 1 ] && exit 3; exec sleep 60").want(3); strings.Count(r.err.String(), "\n") != 1 {
		t.Errorf("with --quiet: %s", &r.err)
	}
}

func TestStepsAreWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "steps")
	steps := func() (events []string, last step) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			last = step{}
			if err := json.Unmarshal([]byte(line), &last); err != nil || last.Time.IsZero() {
				t.Fatalf("%q: %v", line, err)
			}
			events = append(events, last.Event)
		}
		return events, last
	}
	start(t, nil, "-np", "2", "--json-events", name, "sh", "-c", "exit $RANK").want(1)
	got, last := steps()
	if want := []string{"plan", "connected", "ready", "started", "exit", "exit", "cause", "done"}; !slices.Equal(got, want) || *last.Code != 1 {
		t.Errorf("%q, code %v", got, *last.Code)
	}
	start(t, nil, "--json-events", name, "/no/such/program").want(127)
	got, last = steps()
	if want := []string{"plan", "connected", "done"}; !slices.Equal(got, want) || *last.Code != 127 || !strings.Contains(last.Error, "does not exist") {
		t.Errorf("%q, %+v", got, last)
	}
	// Ranks do not inherit the descriptor.
	r := start(t, nil, "--json-events", "fd:7", "true").want(2, "descriptor 7 is not open")
	for _, bad := range []string{t.TempDir(), filepath.Join(name, "below"), "/no/such/folder/e"} {
		start(t, nil, "--json-events", bad, "true").want(2, "open the file of --json-events: open "+bad, "gorun: hint: name a file")
	}
	for _, bad := range []string{name, filepath.Join(name, "below")} {
		start(t, nil, "--output-filename", bad, "echo", "started").want(2, "make the output directory: mkdir "+name, "gorun: hint: --output-filename names a folder")
	}
	script := `"$0" --json-events fd:7 sh -c '[ ! -e /proc/self/fd/7 ]' 7>"$1"`
	cmd := exec.Command("sh", "-c", script, binary("gorun"), name)
	cmd.Env = append(os.Environ(), r.mark)
	shell, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, shell)
	}
	if got, last := steps(); len(got) != 6 || *last.Code != 0 {
		t.Errorf("%q, %+v, %s", got, last, shell)
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	if r := start(t, nil, "echo", "hi").want(0); strings.Contains(r.out.String(), "\x1b") {
		t.Errorf("in a pipe: %q", &r.out)
	}
	if r := start(t, nil, "--color", "always", "echo", "hi").want(0); r.out.String() != "\x1b[36mlocalhost:0: \x1b[0mhi\n" {
		t.Errorf("always: %q", &r.out)
	}
	start(t, nil, "--color", "pink", "true").want(2, "pink", "auto")
}

// On a terminal prefixes have colors, and a progress bar yields to another rank's line.
func TestOutputOnATerminal(t *testing.T) {
	master, slave := pseudoTerminal(t)
	r := start(t, nil, "version").want(0) // only for its mark
	cmd := exec.Command(binary("gorun"), "-np", "2", "--prefix", "rank", "sh", "-c",
		`[ $RANK = 0 ] || { while [ ! -e "$0" ]; do sleep .01; done; sleep .3; echo line; exit; }; printf '\r50%%' >&2; : >"$0"; sleep .8; printf '\r99%%\n' >&2`, filepath.Join(t.TempDir(), "go"))
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "NO_COLOR=") }), r.mark, "TERM=xterm")
	cmd.Stdout, cmd.Stderr = slave, slave
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	text, _ := io.ReadAll(master) // ends with EIO when nobody holds the other side
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %q", err, text)
	}
	const zero, one = "\x1b[36m[0] \x1b[0m", "\x1b[36m[1] \x1b[0m"
	if want := zero + "50%\r\x1b[K" + one + "line\r\n" + zero + "99%\r\n"; string(text) != want {
		t.Errorf("got %q, want %q", text, want)
	}
}

// pseudoTerminal opens a terminal: master reads what is written to slave.
func pseudoTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// TestOutputDocument runs the example of docs/output.md and finds gorun's messages there.
func TestOutputDocument(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/output.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "$ gorun ")
	example, _, found := strings.Cut(rest, "\n")
	if !found {
		t.Fatal("docs/output.md has no example")
	}
	r := start(t, nil, "version").want(0) // only for its mark
	cmd := exec.Command("sh", "-c", `exec "$0" `+example, binary("gorun"))
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), r.mark)
	said, _ := cmd.CombinedOutput()
	steps, err := os.ReadFile(filepath.Join(cmd.Dir, "steps.json"))
	if cmd.ProcessState.ExitCode() != 1 || strings.Count(string(steps), "\n") != 8 {
		t.Errorf("%q: %v, %s\n%s", example, err, said, steps)
	}
	for line := range strings.Lines(string(steps)) {
		var e step
		if err := json.Unmarshal([]byte(line), &e); err != nil || !strings.Contains(string(text), "| `"+e.Event+"` |") {
			t.Errorf("docs/output.md does not have %q (%v)", line, err)
		}
	}
	failures, err := os.ReadFile(root + "/internal/cli/ui/testdata/failures.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ = strings.Cut(string(text), "```\ngorun: error:")
	failure, _, _ := strings.Cut(rest, "```")
	if failure == "" || !strings.Contains(string(failures), failure) {
		t.Errorf("gorun does not say %q", failure)
	}
}

// Hidden output is in the files, and a failure still prints its last lines.
func TestHiddenOutputIsSaved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	const script = "echo out; echo err >&2; exit 3"
	for _, tc := range []struct{ args, out, err string }{
		{"--hide stdout", "", "localhost:0: err\n"},
		{"--hide stderr", "localhost:0: out\n", "gorun: rank 0 stderr: err\n"},
		{"--redirects 3 --tee 1", "localhost:0: out\n", "gorun: rank 0 stderr: err\n"},
		{"--hide all --summary", "", "gorun: rank 0 stderr: err\n"},
	} {
		r := start(t, nil, append(strings.Fields(tc.args), "--output-filename", dir, "sh", "-c", script)...).want(3, tc.err)
		if r.out.String() != tc.out || strings.Count(r.err.String(), " err\n") != 1 {
			t.Errorf("%s: %q and %q", tc.args, &r.out, &r.err)
		}
		for name, want := range map[string]string{"stdout": "out\n", "stderr": "err\n"} {
			if text, err := os.ReadFile(filepath.Join(dir, "rank.0", name)); string(text) != want {
				t.Errorf("%s: %s has %q, %v", tc.args, name, text, err)
			}
		}
	}
}
