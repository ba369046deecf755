package attacks

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// askKey is a rank that asks the rank server for its job's key and keeps the answer for the test.
const askKey = `exec 3<>/dev/tcp/${GORUN_AGENT%:*}/${GORUN_AGENT##*:}
printf 'GET /v1/job HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n' "$GORUN_AGENT" "$GORUN_TOKEN" >&3
umask 077; cat <&3 >"$0/answer.$RANK"; echo "$GORUN_TOKEN" >"$0/token.$RANK"; : >"$0/told.$RANK"
while [ ! -e "$0/go" ]; do sleep 0.1; done; exit 3`

// secrets holds a job's secrets in every form in which they might appear.
type secrets map[string]string // from text to what it is

func (s secrets) add(what string, raw []byte) {
	for _, form := range []string{string(raw), hex.EncodeToString(raw), base64.StdEncoding.EncodeToString(raw)[:42],
		base64.RawURLEncoding.EncodeToString(raw)[:42]} {
		s[form] = what
	}
}

// in returns which secret a text contains.
func (s secrets) in(text string) string {
	for form, what := range s {
		if strings.Contains(text, form) {
			return what
		}
	}
	return ""
}

// jobKey returns the key in the rank server's answer.
func jobKey(t *testing.T, file string) []byte {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	_, body, _ := strings.Cut(string(text), "{")
	var job struct{ Key []byte }
	err := json.Unmarshal([]byte("{"+body[:strings.LastIndexByte(body, '}')+1]), &job)
	must.That(t, err == nil && len(job.Key) == 32, "no key in %q: %v", text, err)
	return job.Key
}

// The job's key, the ranks' tokens and the values of variables appear in no argument, message, log,
// event, core or file, and no other user can read them. Ranks' own processes and files are exempt.
func TestSecretsAreNowhere(t *testing.T) {
	lab.Need(t, "bash", "prlimit")
	c := lab.MustNamespacesAs(t, 65534, lab.Specs(2)...)
	told := filepath.Join(c.Dir, "told") // what ranks write there is theirs
	logs := filepath.Join(c.Dir, "logs")
	for _, dir := range []string{told, logs} {
		must.OK(t, os.Mkdir(dir, 0o700))
		must.OK(t, os.Chown(dir, 65534, 65534))
	}
	raw := make([]byte, 32)
	rand.Read(raw)
	mine := hex.EncodeToString(raw)
	found := secrets{}
	found.add("the variable", []byte(mine))
	before := files(t, os.TempDir(), "/dev/shm", "/var/tmp")

	r := command.StartIn(t, c, []string{"MY_SECRET=" + mine, "AWS_OTHER=" + mine, "GOTRACEBACK=crash"}, "-vv",
		"--json-events", filepath.Join(logs, "events"), "--output-filename", filepath.Join(logs, "out"),
		"--timestamp-output", "-x", "MY_SECRET", "-np", "4", "-H", "f1:2,f2:2", "bash", "-c", askKey, told)
	stop := sampleArguments()
	must.Until(t, "the ranks", func() bool { all, _ := filepath.Glob(told + "/told.*"); return len(all) == 4 })
	found.add("the job's key", jobKey(t, told+"/answer.0"))
	for rank := range 4 {
		token, err := os.ReadFile(told + "/token." + strconv.Itoa(rank))
		must.That(t, err == nil && len(token) >= 17, "token %q: %v", token, err)
		found[strings.TrimSpace(string(token))] = "the token of a rank"
	}
	gorun := command.Processes()
	if len(gorun) < 5 { // the launcher, two guards, two agents
		t.Fatalf("only %d processes of gorun", len(gorun))
	}
	for _, pid := range gorun {
		for _, secret := range []string{"mem", "environ", "auxv"} {
			check.Error(asUser(65534, filepath.Join("/proc", strconv.Itoa(pid), secret))).Any(t,
				"another process of the user reads", secret, "of", command.ProcFile(pid, "cmdline"))
		}
	}
	for _, pid := range lab.Processes(r.Mark) {
		check.Error(asUser(attacker, filepath.Join("/proc", strconv.Itoa(pid), "environ"))).Any(t,
			"another user reads the environment of", command.ProcFile(pid, "cmdline"))
	}
	must.OK(t, os.WriteFile(told+"/go", nil, 0o644))
	r.Want(3)
	argv := stop()
	for line := range argv {
		check.Equal(t, found.in(line), "", "is in the arguments", line)
	}
	check.That(t, len(argv) >= 5, "only %d command lines were seen", len(argv))
	check.Equal(t, found.in(r.Err.String()+r.Out.String()), "", "is printed:", &r.Err)
	for _, path := range files(t, os.TempDir(), "/dev/shm", "/var/tmp") {
		if slices.Contains(before, path) && !strings.HasPrefix(path, c.Dir) || strings.HasPrefix(path, told) {
			continue
		}
		if text, err := os.ReadFile(path); err == nil {
			check.Equal(t, found.in(string(text)), "", "is in", path)
		}
	}
}

// A crashed launcher leaves no core, which would hold the key, even where cores are enabled and its
// ranks leave theirs.
func TestLauncherLeavesNoCore(t *testing.T) {
	lab.Need(t, "prlimit")
	t.Chdir(t.TempDir())
	r := command.StartPath(t, nil, "/usr/bin/prlimit", []string{"GOTRACEBACK=crash"}, "--core=unlimited",
		command.Binary("gorun"), "-np", "1", "sh", "-c", "echo up; exec sleep 60")
	must.Until(t, "the rank", func() bool { return strings.Contains(r.Out.String(), "up") })
	must.OK(t, r.Cmd.Process.Signal(syscall.SIGABRT))
	_ = r.Cmd.Wait()
	if status := r.Cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.CoreDump() {
		t.Errorf("the launcher ended with %v", r.Cmd.ProcessState)
	}
	r.NothingLeft(7 * time.Second)
}

// files returns all regular files below the directories.
func files(t *testing.T, dirs ...string) (all []string) {
	t.Helper()
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				all = append(all, path)
			}
			return nil
		})
	}
	return all
}

// sampleArguments collects the arguments of all processes until the caller calls stop, which
// returns them.
func sampleArguments() (stop func() map[string]bool) {
	all := map[string]bool{}
	done := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		for {
			lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, file := range lines {
				if text, err := os.ReadFile(file); err == nil {
					all[string(text)] = true
				}
			}
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return func() map[string]bool { close(done); sampling.Wait(); return all }
}
