package attacks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Another user gets nothing from a job's control socket, even if the user has opened the folders
// and the socket to everybody.
func TestControlSocketAnswersNoOtherUser(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	dir := filepath.Join(c.Dir, "run")
	must.OK(t, os.Mkdir(dir, 0o700))
	must.OK(t, os.Chown(dir, victim, victim))
	r := command.StartIn(t, c, []string{"XDG_RUNTIME_DIR=" + dir}, "-np", "2", "-H", "f1:2", "sh", "-c",
		"echo ready; exec sleep 1000")
	command.Await(t, "the ranks", func() bool { return strings.Count(r.Out.String(), "ready") == 2 })
	sockets, err := filepath.Glob(dir + "/gorun/*.sock")
	must.That(t, err == nil && len(sockets) == 1, "sockets %q, %v", sockets, err)
	call := func(uid int, request string) (answer string, err error) {
		cmd := userCommand(uid, command.Binary("caller"), sockets[0])
		cmd.Stdin = strings.NewReader(request +
			" HTTP/1.1\r\nHost: gorun\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
		out, err := cmd.Output()
		return string(out), err
	}
	if answer, err := call(victim, "GET /v1/job"); err != nil || !strings.Contains(answer, `"state":"running"`) {
		t.Fatalf("the user gets %q, %v", answer, err)
	}
	refused := func() {
		t.Helper()
		for _, request := range []string{"GET /v1/job", "GET /v1/output?follow=1", "POST /v1/stop", "POST /v1/exec"} {
			if answer, _ := call(attacker, request); answer != "" {
				t.Errorf("%s of another user gets %q", request, answer)
			}
		}
	}
	if _, err := call(attacker, "GET /v1/job"); err == nil {
		t.Error("another user can connect")
	}
	refused()
	must.Run(t, exec.Command("chmod", "-R", "a+rwX", dir))
	refused()
	if answer, err := call(victim, "GET /v1/job"); err != nil || !strings.Contains(answer, `"state":"running"`) {
		t.Errorf("afterwards the user gets %q, %v", answer, err)
	}
	r.Stop()
}
