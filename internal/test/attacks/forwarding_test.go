package attacks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Every transport asks only for a session that runs a command: agents, X11 and ports are not
// forwarded, even if the user's configuration asks for it and the host allows it.
func TestNothingIsForwarded(t *testing.T) {
	lab.Need(t, "ssh")
	c := lab.MustLoopback(t, lab.Spec{Options: []string{"LogLevel DEBUG3", "AllowAgentForwarding yes",
		"X11Forwarding yes"}})
	text := must.Get(os.ReadFile(c.ConfigFile))(t)
	asks := "Host *\n  ForwardAgent yes\n  ForwardX11 yes\n  LocalForward 127.0.0.1:17771 127.0.0.1:1\n  " +
		"RemoteForward 17772 127.0.0.1:1\n"
	must.OK(t, os.WriteFile(c.ConfigFile, append([]byte(asks), text...), 0o644))
	env := []string{"DISPLAY=:77", "SSH_AUTH_SOCK=" + filepath.Join(c.Dir, "none")}
	for _, how := range [][]string{nil, {"--launcher", "system-ssh"}} {
		command.StartIn(t, c, env, append(how, "-H", "f1", "true")...).Want(0)
	}
	log, err := os.ReadFile(c.Host("f1").Log)
	check.That(t, err == nil && strings.Count(string(log), "server_input_channel_req: channel 0 request exec") >= 2,
		"sshd does not tell of requests: %v: %.2000s", err, log)
	for _, word := range []string{"auth-agent-req", "x11-req", "tcpip-forward", "direct-tcpip", "streamlocal-forward",
		"request pty-req", "request env"} {
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, word) && (strings.Contains(line, "request") || strings.Contains(line, "ctype")) {
				t.Errorf("%s", line)
			}
		}
	}
}
