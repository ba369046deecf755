package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// A9: a rank's child sits in a frozen cgroup v1, where no signal reaches it, as on a dead file
// system. gorun must end 13 s after the stop request (T_exit and 5 s).
func TestUnkillableProcessIsNamed(t *testing.T) {
	group := fmt.Sprintf("/sys/fs/cgroup/freezer/test-%d", os.Getpid())
	if err := os.Mkdir(group, 0o755); err != nil {
		lab.Skip(t, err.Error())
	}
	put := func(text, file string) {
		t.Helper()
		must.OK(t, os.WriteFile(filepath.Join(group, file), []byte(text), 0))
	}
	t.Cleanup(func() {
		put("THAWED", "freezer.state")
		must.Until(t, "the end of "+group, func() bool { return os.Remove(group) == nil })
	})
	for name, tc := range map[string]struct {
		script string
		code   int
	}{
		"all else went well":  {"exit 0", 123},
		"it is not the cause": {"exit 7", 7},
	} {
		put("THAWED", "freezer.state")
		flag := filepath.Join(t.TempDir(), "go")
		r := command.Start(t, nil, "-np", "1", "--grace", "1", "sh", "-c", "sleep 1000 & echo $!; while [ ! -e "+flag+
			" ]; do sleep 0.1; done; "+tc.script)
		must.Until(t, "the rank's child", func() bool { return strings.Contains(r.Out.String(), "\n") })
		_, text, _ := strings.Cut(strings.TrimSpace(r.Out.String()), ": ")
		if text == "" {
			text = strings.TrimSpace(r.Out.String())
		}
		pid := must.Get(strconv.Atoi(text))(t)
		put(text, "cgroup.procs")
		put("FROZEN", "freezer.state")
		began := time.Now()
		must.OK(t, os.WriteFile(flag, nil, 0o600))
		code := r.Wait()
		check.That(t, code == tc.code, "%s: ended with %d, want %d: %s", name, code, tc.code, &r.Err)
		took := time.Since(began)
		check.That(t, took <= 20*time.Second, "%s: it took %v", name, took)
		for _, want := range []string{fmt.Sprintf("localhost: process %d (s", pid), ") cannot be killed",
			"hint: SIGKILL is pending"} {
			check.That(t, strings.Contains(r.Err.String(), want), "%s: want %q in:\n%s", name, want, &r.Err)
		}
	}
	put("THAWED", "freezer.state")
	command.Start(t, nil, "-np", "1", "true").Want(0) // and removes the empty groups of the others
}

// A13: process ids wrap around many times while jobs fail, in a namespace with few of them.
// Processes that started before the jobs or beside them survive.
func TestReusedProcessIDsAreSpared(t *testing.T) {
	lab.Need(t, "unshare")
	const script = `
		echo 500 >/proc/sys/kernel/pid_max || exit 77
		for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & old="$old $!"; done
		(while :; do (:); (:); (:); (:); done) & wrap=$!
		i=0; while [ $i -lt 6 ]; do
			"$0" -np 2 sh -c '(setsid sleep 1000 &); [ $RANK = 0 ] && exit 3; sleep 1000' 2>/dev/null; [ $? = 3 ] || echo "job $i ended otherwise"
			sleep 1000 & old="$old $!"
			i=$((i+1))
		done
		kill $wrap
		for p in $old; do kill -0 $p || echo "$p was killed"; done
		echo last $(sh -c 'echo $$')
		for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = sleep ] && n=$((n+1)); done
		echo $n sleep`
	mark := "E2E_MARK=" + t.Name()
	cmd := exec.CommandContext(t.Context(), "unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c",
		script, command.Binary("gorun"))
	cmd.Env = append(os.Environ(), mark)
	limit := "/proc/sys/kernel/pid_max"
	before, _ := os.ReadFile(limit)
	out, err := cmd.CombinedOutput()
	if after, _ := os.ReadFile(limit); string(after) != string(before) {
		_ = os.WriteFile(limit, before, 0)
		lab.Skip(t, "this kernel has one pid_max for all namespaces")
	}
	check.That(t, err == nil && strings.HasSuffix(string(out), "16 sleep\n") &&
		!strings.Contains(string(out), "killed") && !strings.Contains(string(out), "otherwise"),
		"%v: %s", err, out)
	left := lab.Processes(mark)
	check.That(t, len(left) == 0, "left behind: %v", left)
}
