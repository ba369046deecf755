package attacks

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Another user gets nothing from a job's control socket, even if the user has opened the folders
// and the socket to everybody.
func TestControlSocketAnswersNoOtherUser(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	dir := ownFolder(t, c, "run")
	r := command.StartIn(t, c, []string{"XDG_RUNTIME_DIR=" + dir}, "-np", "2", "-H", "f1:2", "sh", "-c",
		"echo ready; exec sleep 1000")
	must.Until(t, "the ranks", func() bool { return strings.Count(r.Out.String(), "ready") == 2 })
	sockets, err := filepath.Glob(dir + "/gorun/*.sock")
	must.That(t, err == nil && len(sockets) == 1, "sockets %q, %v", sockets, err)
	answers := func() {
		t.Helper()
		answer, err := callSocket(victim, sockets[0], "GET /v1/job")
		must.That(t, err == nil && strings.Contains(answer, `"state":"running"`), "the user gets %q, %v", answer, err)
	}
	answers()
	check.Error(callSocket(attacker, sockets[0], "GET /v1/job")).Any(t, "another user can connect")
	refusesOthers(t, dir, sockets[0], "GET /v1/job", "GET /v1/output?follow=1", "POST /v1/stop", "POST /v1/exec")
	answers()
	r.Stop()
}

// ownFolder makes a folder that is the victim's alone.
func ownFolder(t *testing.T, c *lab.Cluster, name string) string {
	t.Helper()
	dir := filepath.Join(c.Dir, name)
	must.OK(t, errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, victim, victim)))
	return dir
}

// callSocket sends a request to a socket of gorun as a user.
func callSocket(uid int, socket, request string) (answer string, err error) {
	cmd := userCommand(uid, command.Binary("caller"), socket)
	cmd.Stdin = strings.NewReader(request +
		" HTTP/1.1\r\nHost: gorun\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
	out, err := cmd.Output()
	return string(out), err
}

// refusesOthers checks that a socket answers no other user, also once the user has opened its
// folder and the socket to everybody.
func refusesOthers(t *testing.T, dir, socket string, requests ...string) {
	t.Helper()
	for _, mode := range []string{"go-rwx", "a+rwX"} {
		must.Run(t, exec.Command("chmod", "-R", mode, dir))
		for _, request := range requests {
			answer, _ := callSocket(attacker, socket, request)
			check.Equal(t, answer, "", request, "of another user gets")
		}
	}
}
