package attacks

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Another user gets nothing from the socket of gorun up, and no job uses a socket of another user.
func TestKeptHostsAreTheirUsersAlone(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	dir := ownFolder(t, c, "run")
	gorun := func(args ...string) *command.Run {
		t.Helper()
		r := command.StartIn(t, c, []string{"XDG_STATE_HOME=" + dir, "XDG_RUNTIME_DIR="}, args...)
		code := r.Wait()
		must.That(t, code == 0, "gorun %q: exit code %d\n%s", args, code, &r.Err)
		return r
	}
	t.Cleanup(func() { // also where the test has failed
		var list struct{ Jobs []struct{ PID int } }
		r := command.StartIn(t, c, []string{"XDG_STATE_HOME=" + dir, "XDG_RUNTIME_DIR="}, "ps", "--json")
		r.Wait()
		_ = json.Unmarshal([]byte(r.Out.String()), &list)
		for _, j := range list.Jobs {
			_ = syscall.Kill(j.PID, syscall.SIGKILL)
		}
	})
	gorun("up", "-H", "f1")
	sockets, err := filepath.Glob(dir + "/gorun/up-*.sock")
	must.That(t, err == nil && len(sockets) == 1, "sockets %q, %v", sockets, err)
	info, err := os.Stat(sockets[0])
	check.That(t, err == nil && info.Mode().Perm() == 0o600, "the socket has mode %v, %v", info.Mode(), err)
	refusesOthers(t, dir, sockets[0], "GET /v1/job", "POST /v1/reach", "POST /v1/run", "POST /v1/put", "POST /v1/agent",
		"POST /v1/stop")
	for request, want := range map[string]string{"GET /v1/job": `"state":"keeping"`, "POST /v1/reach": "404",
		"POST /v1/run": "404", "POST /v1/agent": "404"} {
		if answer, _ := callSocket(victim, sockets[0], request); !strings.Contains(answer, want) {
			t.Errorf("%s of the user without the name of a host gets %q", request, answer)
		}
	}

	// While the folder is open to everybody, the other user plants a socket that a job finds first.
	// The job's gorun closes the folder again.
	planted := filepath.Join(filepath.Dir(sockets[0]), strings.Replace(filepath.Base(sockets[0]), "up-", "up-0", 1))
	cmd := userCommand(attacker, command.Binary("caller"), "-listen", planted)
	cmd.Stdin = strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
	var got command.Output
	cmd.Stdout = &got
	cmd.Stderr = &got
	must.OK(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	must.Until(t, "the impostor", func() bool { return got.String() != "" })
	must.Run(t, exec.Command("chmod", "700", dir, filepath.Dir(sockets[0])))
	r := gorun("-v", "-H", "f1", "true")
	for _, want := range []string{"listens on " + planted, "f1: connected already, by up-"} {
		check.That(t, strings.Contains(r.Err.String(), want), "gorun does not say %q:\n%s", want, &r.Err)
	}
	gorun("down")
	check.Equal(t, strings.ReplaceAll(got.String(), "got \"\"\n", ""), "listens\n",
		"the other user's socket got a request")
}
