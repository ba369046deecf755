package rsh

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// kubectl stands in for the real one: the pods job-worker-0 and job-worker-1 are
// directories, which are their homes.
const kubectl = `#!/bin/sh
[ "$1" = exec ] && pod=$2 && shift 2 || exit 64
stdin=
while [ "$1" != -- ]; do
	[ "$1" = -i ] && stdin=yes || exit 64
	shift
done
shift
case $pod in
job-worker-[01]) ;;
*) echo "Error from server (NotFound): pods \"$pod\" not found" >&2; exit 1 ;;
esac
HOME=$(dirname "$0")/$pod
export HOME
mkdir -p "$HOME" && cd /
[ "$stdin" ] || exec </dev/null
exec "$@"
`

// kubexec is the script that version 1 of the MPI operator makes.
const kubexec = `#!/bin/sh
set -x
POD_NAME=$1
shift
DIR/kubectl exec ${POD_NAME} -- /bin/sh -c "$*"
`

// cluster makes the programs and returns their directory.
func cluster(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"loud.sh": "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x >&2\n" +
			"printf '\\nthe end \\342\\200\\250' >&2\nexit 3\n",
		"wordy.sh": "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x\nexit 3\n",
		"kubectl":  kubectl, "kubexec.sh": kubexec, "deaf.sh": kubexec,
		"words.sh": "#!/bin/sh\nprintf '%s\\n' \"$@\" >\"$(dirname \"$0\")/words\"\nfor line; do :; done\nexec sh -c " +
			"\"$line\"\n",
	} {
		text = strings.ReplaceAll(text, "DIR", dir)
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	return dir
}

func mustDial(t *testing.T, c Config) *Host {
	t.Helper()
	h := must.Get(Dial(t.Context(), c))(t)
	return h
}

func TestKubexec(t *testing.T) {
	dir := cluster(t)
	h := mustDial(t, Config{Argv: []string{filepath.Join(dir, "kubexec.sh")}, Host: "job-worker-0"})
	defer h.Close()
	home := filepath.Join(dir, "job-worker-0")
	odd := "it's $HOME \\ \"! *"

	var out, stderr bytes.Buffer
	if err := h.Run(t.Context(), []string{"/bin/cat", "-"}, strings.NewReader(odd), &out, &stderr); err != nil ||
		out.String() != odd {
		t.Errorf("cat: %q, %v: %s", &out, err, &stderr)
	}
	out.Reset()
	if err := h.Run(t.Context(), []string{"printf", "%s|", odd, "", "x"}, nil, &out, nil); err != nil ||
		out.String() != odd+"||x|" {
		t.Errorf("printf: %q, %v", &out, err)
	}
	err := h.Run(t.Context(), []string{"/bin/sh", "-c", "exit 7"}, nil, nil, nil)
	var status interface{ ExitCode() int }
	check.That(t, errors.As(err, &status) && status.ExitCode() == 7, "exit 7: %v", err)

	for _, text := range []string{"#!/bin/sh\necho one\n", "#!/bin/sh\necho two\n"} {
		must.OK(t, h.Put(t.Context(), ".cache/gorun/x/tool", 0o700, strings.NewReader(text)))
		out.Reset()
		want := strings.Fields(text)[2] + "\n"
		err := h.Run(t.Context(), []string{".cache/gorun/x/tool"}, nil, &out, nil)
		check.That(t, err == nil && out.String() == want, "the tool says %q, %v", &out, err)
	}
	for name, mode := range map[string]os.FileMode{".cache": 0o700, ".cache/gorun/x": 0o700,
		".cache/gorun/x/tool": 0o700} {
		info, err := os.Stat(filepath.Join(home, name))
		check.That(t, err == nil && info.Mode().Perm() == mode, "%s: %v, %v", name, info, err)
	}
	left, _ := filepath.Glob(filepath.Join(home, ".cache/gorun/x/.*"))
	check.That(t, left == nil, "temporary files stay: %q", left)
	check.Error(h.Put(t.Context(), ".cache", 0o600, strings.NewReader("x"))).Says(t, ".cache is a directory",
		"in place of a directory")
}

func TestDialTellsWhatIsWrong(t *testing.T) {
	dir := cluster(t)
	for _, tc := range []struct {
		program, host string
		says, hint    string
	}{
		{"kubexec.sh", "job-worker-9", `exit status 1: Error from server (NotFound): pods "job-worker-9" not found`,
			"kubexec.sh job-worker-9 hostname"},
		{"deaf.sh", "job-worker-0", "deaf.sh runs commands there, but does not pass standard input on", "-i"},
		{"/bin/true", "f1", "no shell answered", "/bin/true f1 hostname"},
		{"/bin/echo", "f1", "no shell answered", "/bin/echo f1 hostname"},
		{"loud.sh", "f1", "the end", "loud.sh f1 hostname"},
		{"wordy.sh", "f1", "exit status 3", "wordy.sh f1 hostname"},
		{"kubexec.sh", "-oProxyCommand=x", "is not a host name", ""},
		{"kubexec.sh", "a b", "is not a host name", ""},
		{"kubexec.sh", "", "is not a host name", ""},
	} {
		program := tc.program
		if !filepath.IsAbs(program) {
			program = filepath.Join(dir, program)
		}
		_, err := Dial(t.Context(), Config{Argv: []string{program}, Host: tc.host})
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s %s: %v", tc.program, tc.host, err)
			continue
		}
		var hinter interface{ Hint() string }
		check.That(t, tc.hint == "" || errors.As(err, &hinter) && strings.Contains(hinter.Hint(), tc.hint),
			"%s %s: hint %v", tc.program, tc.host, hinter)
		check.That(t, !strings.ContainsAny(err.Error(), "\n\x00\u2028") && len(err.Error()) <= 2*wordsSize,
			"%s: more than a line, or %d bytes: %.1000q", tc.program, len(err.Error()), err)
	}
}

func TestTemporary(t *testing.T) {
	for said, want := range map[string]bool{
		"ssh: connect to host f1 port 22: Connection refused":                      true,
		"ssh: Could not resolve hostname f1: Name or service not known":            true,
		`error: unable to upgrade connection: container not found ("worker")`:      true,
		"ada@f1: Permission denied (publickey).":                                   false,
		`Error from server (NotFound): pods "job-worker-9" not found`:              false,
		"Host key verification failed.; kex_exchange_identification: read: broken": false,
	} {
		check.Equal(t, (&UnreachableError{Said: said}).Temporary(), want, said)
	}
}

// The program gets the host and the command as one word each.
func TestArgumentsOfTheProgram(t *testing.T) {
	dir := cluster(t)
	h := mustDial(t, Config{Argv: []string{filepath.Join(dir, "words.sh"), "-o", "a b"}, Host: "ada@f1",
		After: []string{"-p", "22"}})
	must.OK(t, h.Run(t.Context(), []string{"/bin/echo", "x y", "z"}, nil, nil, nil))
	text, _ := os.ReadFile(filepath.Join(dir, "words"))
	want := "-o\na b\nada@f1\n-p\n22\n/bin/echo 'x y' z\n"
	check.Equal(t, string(text), want, "words")
}

// The program and its children end with ctx, even if they ignore SIGTERM.
func TestCancelledRunLeavesNothing(t *testing.T) {
	must.HaveTime(t)
	dir := cluster(t)
	h := mustDial(t, Config{Argv: []string{filepath.Join(dir, "kubexec.sh")}, Host: "job-worker-0"})
	for _, script := range []string{"sleep 300 & echo $!; wait", "trap '' TERM; sleep 300 & echo $!; wait; wait"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("enough")
		var pid firstLine
		pid.done = func() { cancel(reason) }
		began := time.Now()
		err := h.Run(ctx, []string{"/bin/sh", "-c", script}, nil, &pid, nil)
		check.That(t, errors.Is(err, reason) && time.Since(began) <= 30*time.Second,
			"%q: %v after %v", script, err, time.Since(began))
		gone := func() bool { return !alive(pid.line()) }
		for deadline := time.Now().Add(20 * time.Second); !gone() && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		check.That(t, gone(), "%q: process %s lives", script, pid.line())
	}
}

// alive reports whether a process runs; zombies do not.
func alive(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !bytes.Contains(text, []byte(") Z "))
}

// firstLine calls done at its first line.
type firstLine struct {
	text []byte
	done func()
}

func (f *firstLine) Write(p []byte) (int, error) {
	f.text = append(f.text, p...)
	if bytes.IndexByte(f.text, '\n') >= 0 {
		f.done()
	}
	return len(p), nil
}

func (f *firstLine) line() string { return strings.TrimSpace(string(f.text)) }

// A background process that holds the output open, like ControlPersist, does not block Run.
func TestStrayOutputDoesNotHold(t *testing.T) {
	must.HaveTime(t)
	dir := cluster(t)
	h := mustDial(t, Config{Argv: []string{filepath.Join(dir, "kubexec.sh")}, Host: "job-worker-1"})
	var out bytes.Buffer
	began := time.Now()
	err := h.Run(t.Context(), []string{"/bin/sh", "-c", "setsid sleep 300 & echo $!"}, nil, &out, nil)
	check.That(t, err == nil && time.Since(began) <= 30*time.Second, "%v after %v", err, time.Since(began))
	pids := strings.Fields(out.String())
	must.That(t, len(pids) == 1, "output %q", &out)
	p := slices.IndexFunc(pids, alive)
	check.That(t, p >= 0, "nothing was left behind")
	var n int
	for _, c := range pids[0] {
		n = n*10 + int(c-'0')
	}
	_ = syscall.Kill(n, syscall.SIGKILL)
}
