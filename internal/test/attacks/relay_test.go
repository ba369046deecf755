package attacks

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// siegeTime bounds a gorun that is attacked.
const siegeTime = 5 * time.Minute

// greet sends a server nothing, a page of the web, SSH, TLS, the ranks' handshake and garbage, each
// by a caller, and returns how many of them came through. The server may answer nothing but an
// alert of 7 bytes.
func greet(t *testing.T, caller func() *exec.Cmd, alert string) (connected int) {
	t.Helper()
	var all sync.WaitGroup
	var through atomic.Int64
	for _, text := range []string{"", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-x\r\n",
		"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03", "gorunrng\x00\x02", strings.Repeat("\xff", 1<<16)} {
		cmd := caller()
		cmd.Stdin = strings.NewReader(text)
		all.Go(func() {
			out, err := cmd.Output() // an error if the server resets the connection
			_, answer, called := strings.Cut(string(out), "\n")
			check.That(t, err != nil || called, "a caller that sends %.20q says %q", text, out)
			check.That(t, answer == "" || alert != "" && len(answer) == 7 && strings.HasPrefix(answer, alert),
				"another user who sends %.20q gets %q", text, answer)
			if called {
				through.Add(1)
			}
		})
	}
	all.Wait()
	return int(through.Load())
}

// flood runs a caller that holds connections which say nothing, to the end of the test.
func flood(t *testing.T, caller *exec.Cmd) {
	t.Helper()
	var said command.Output
	caller.Stdout = &said
	caller.Stderr = &said
	must.OK(t, caller.Start())
	t.Cleanup(func() {
		_ = caller.Process.Kill()
		_ = caller.Wait()
	})
	must.Until(t, "the flood", func() bool { return strings.Contains(said.String(), "flooded") })
}

// Files that hosts pass on: neither another user of a host nor a peer on the network gets a byte of
// them, from the port, from what has come or from any argument, and a flood of connections that say
// nothing does not hold the copy up.
func TestFilesThatArePassedOnAreTheUsersAlone(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(3)...)
	data := make([]byte, 8<<20)
	rand.Read(data)
	file := filepath.Join(c.Dir, "data")
	must.OK(t, os.WriteFile(file, data, 0o644))
	if r := command.Start(t, c, "cp", file, "f1,f2:warm"); r.Wait() != 0 { // brings gorun there
		t.Fatal(r.Err.String())
	}
	// The links are too narrow for the file before the attack has ended. On narrower ones TCP may
	// lose so many packets that it is silent for seconds.
	for _, host := range []string{"f1", "f2"} {
		must.OK(t, c.Narrow(t.Context(), host, 1000))
	}
	r := command.StartWithin(t, c, siegeTime, command.Binary("gorun"), nil, "cp", file, "f1,f2:to")
	var port netip.AddrPort
	must.Until(t, "a port of the copy on f1", func() bool {
		for at, loopback := range portsOf(t, c, "f1") {
			if !loopback {
				port = at
			}
		}
		return port.IsValid()
	})
	for _, from := range []string{"f1", "f3"} {
		greet(t, func() *exec.Cmd {
			return onAs(t, c, from, attacker, `exec "$@"`, command.Binary("caller"), port.String())
		}, "")
	}
	parts, err := filepath.Glob(filepath.Join(c.Host("f1").Home, "to/.data.*.gorun"))
	must.That(t, err == nil && len(parts) == 1, "what has come: %q, %v", parts, err)
	info, err := os.Stat(parts[0])
	check.That(t, err == nil && info.Mode().Perm() == 0o600, "what has come has mode %v, %v", info.Mode(), err)
	check.That(t, asUser(attacker, parts[0]) != nil, "another user reads what has come")
	flood(t, onAs(t, c, "f1", attacker, `exec "$@"`, command.Binary("caller"), "-flood=600", port.String()))
	for _, host := range []string{"f1", "f2"} {
		must.OK(t, c.Widen(t.Context(), host))
	}
	code := r.Wait()
	check.That(t, code == 0, "exit code %d: %s", code, &r.Err)
	for _, host := range []string{"f1", "f2"} {
		got, err := os.ReadFile(filepath.Join(c.Host(host).Home, "to/data"))
		check.That(t, err == nil && bytes.Equal(got, data), "%s has %d bytes, %v", host, len(got), err)
	}
}

// heldSrun is in the place of srun, with its answer to --help: it keeps the ticket for the test,
// waits for the file go, and starts the nodes' processes by the commands of its last lines.
const heldSrun = `#!/bin/sh
case $1 in --help) %[2]s; exit;; esac
cd %[1]q || exit
umask 077
cat >ticket.new && mv ticket.new ticket
while [ ! -e go ]; do sleep 0.05; done
%[3]s
`

// nodesHere starts the processes of two nodes on this machine.
const nodesHere = `while case $1 in --*) ;; *) false;; esac; do shift; done
for node in n1 n2; do
	SLURMD_NODENAME=$node "$@" <ticket &
done
wait`

// The port on which the nodes of a Slurm step connect back: another user of the launcher's machine
// gets no byte there and keeps no node out, and finds the ticket nowhere.
func TestStepsOfSlurmAreTheirUsersAlone(t *testing.T) {
	besiegeStep(t, "echo --external-launcher", nodesHere, "SLURM_JOB_ID=7")
}

// The same with Slurm's own srun and nodes, where a user with another job is on a node.
func TestStepsOfRealSlurmAreTheirUsersAlone(t *testing.T) {
	s := lab.MustSlurm(t, 2)
	t.Setenv("SLURM_CONF", s.Conf)
	srun := must.Get(exec.LookPath("srun"))(t)
	must.OK(t, s.Command(t.Context(), "salloc", "-Q", "-N2", "-n2", "--no-shell", "--job-name=siege").Run())
	id := must.Get(s.Command(t.Context(), "squeue", "-h", "-o", "%i", "--name=siege").Output())(t)
	besiegeStep(t, srun+" --help", `exec `+srun+` "$@" <ticket`, "SLURM_JOB_ID="+strings.TrimSpace(string(id)))
}

// besiegeStep attacks the port of a step of the nodes n1 and n2 before start runs on the launcher's
// machine, and while it does.
func besiegeStep(t *testing.T, help, start, job string) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	must.OK(t, os.Mkdir(bin, 0o755))
	script := fmt.Appendf(nil, heldSrun, dir, help, start)
	must.OK(t, os.WriteFile(filepath.Join(bin, "srun"), script, 0o755))
	env := []string{"PATH=" + bin + ":" + os.Getenv("PATH"), job, "SLURM_JOB_NODELIST=n1,n2",
		"SLURM_NTASKS=2", "SLURM_TASKS_PER_NODE=1(x2)"}
	r := command.StartWithin(t, nil, siegeTime, command.Binary("gorun"), env, "-v", "-np", "2", "-H", "n1,n2",
		"--launcher", "srun", "--start-timeout", "10m", "sh", "-c", "echo rank $RANK")
	var ticket struct {
		Port int
		Seed string
	}
	must.Until(t, "the step", func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "ticket"))
		return err == nil && json.Unmarshal(text, &ticket) == nil
	})
	must.That(t, ticket.Seed != "" && ticket.Port != 0, "the ticket is %+v", ticket)
	port := fmt.Sprint("127.0.0.1:", ticket.Port)
	const alert = "\x15\x03" // by which TLS may say that it does not understand
	greet(t, func() *exec.Cmd { return userCommand(attacker, command.Binary("caller"), port) }, alert)
	for _, name := range []string{"cmdline", "environ"} {
		files := must.Get(filepath.Glob("/proc/[0-9]*/" + name))(t)
		for _, file := range files {
			text, err := os.ReadFile(file)
			check.That(t, err != nil || !bytes.Contains(text, []byte(ticket.Seed)), "the secret is in %s", file)
		}
	}
	flood(t, userCommand(attacker, command.Binary("caller"), "-flood=600", port))
	flood(t, userCommand(attacker, command.Binary("caller"), "-flood=100", "-storm", port))
	must.OK(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	code := r.Wait()
	for _, want := range []string{"n1: connected back", "n2: connected back", "more of them are not shown"} {
		check.That(t, strings.Contains(r.Err.String(), want), "gorun -v does not say %q", want)
	}
	n := strings.Count(r.Err.String(), "was refused")
	check.That(t, n <= 16, "gorun -v names %d connections of strangers", n)
	check.That(t, code == 0 && strings.Contains(r.Out.String(), "rank 0") && strings.Contains(r.Out.String(), "rank 1"),
		"exit code %d, output %q: %s", code, r.Out.String(), &r.Err)
}
