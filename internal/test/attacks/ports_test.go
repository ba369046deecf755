package attacks

import (
	"io"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/must"
)

// jobHere starts a job on this machine, and returns the environment in which it is found.
func jobHere(t *testing.T, name string) (env []string, job *command.Run) {
	t.Helper()
	env = []string{"HOME=" + t.TempDir(), "XDG_RUNTIME_DIR="}
	job = command.StartWithin(t, nil, siegeTime, command.Binary("gorun"), env, "--launcher", "local", "--name", name,
		"sh", "-c", "echo ready; exec sleep 600")
	must.Until(t, "the job", func() bool { return strings.Contains(job.Out.String(), "ready") })
	return env, job
}

// Another user of the machine gets no connection with a port that gorun forward serves, and keeps
// the user out of nothing.
func TestForwardedPortsAreTheUsersAlone(t *testing.T) {
	service := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer service.Close()
	go func() {
		for {
			conn, err := service.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "secret")
			conn.Close()
		}
	}()
	env, job := jobHere(t, "forwarded")
	_, port, _ := net.SplitHostPort(service.Addr().String())
	r := command.StartWithin(t, nil, siegeTime, command.Binary("gorun"), env, "forward", "forwarded", port+":0")
	here := regexp.MustCompile(`(127\.0\.0\.1:\d+) is port ` + port)
	must.Until(t, "the address", func() bool { return here.MatchString(r.Err.String()) })
	addr := here.FindStringSubmatch(r.Err.String())[1]
	read := func() string {
		conn := must.Get(net.Dial("tcp", addr))(t)
		defer conn.Close()
		text, _ := io.ReadAll(conn)
		return string(text)
	}
	must.Equal(t, read(), "secret", "the user reads")
	flood(t, userCommand(attacker, command.Binary("caller"), "-flood=600", addr))
	out, err := userCommand(attacker, command.Binary("caller"), addr).CombinedOutput()
	check.That(t, !strings.Contains(string(out), "secret"), "another user reads %q, %v", out, err)
	check.Equal(t, read(), "secret", "beside a flood the user reads")
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil { // there is IPv6
		l.Close()
		_, number, _ := net.SplitHostPort(addr)
		out, err := userCommand(attacker, "timeout", "10", command.Binary("caller"), "-listen",
			"[::1]:"+number).CombinedOutput()
		check.That(t, err != nil && strings.Contains(string(out), "address already in use"),
			"another user answers at localhost: %q, %v", out, err)
	}
	job.Stop()
	check.Equal(t, r.Wait(), 0, "the end of forward, which is that of the job")
}

// The page of a running job is for its user only, also for those who know its address.
func TestLivePageIsTheUsersAlone(t *testing.T) {
	env, job := jobHere(t, "shown")
	r := command.StartWithin(t, nil, siegeTime, command.Binary("gorun"), env, "report", "--live", "shown")
	here := regexp.MustCompile(`http://\S+`)
	must.Until(t, "the address", func() bool { return here.MatchString(r.Err.String()) })
	url := here.FindString(r.Err.String())
	const read = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
	out, err := exec.Command("python3", "-c", read, url).CombinedOutput()
	must.That(t, err == nil && strings.Contains(string(out), "gorun: shown"), "the user reads %.200q, %v", out, err)
	out, err = userCommand(attacker, "python3", "-c", read, url).CombinedOutput()
	check.That(t, err != nil && !strings.Contains(string(out), "shown"), "another user reads %.200q, %v", out, err)
	job.Stop()
	check.Equal(t, r.Wait(), 0, "the end of the page, which is that of the job")
}
