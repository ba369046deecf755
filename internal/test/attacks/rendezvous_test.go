package attacks

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// connection is a connection of a user of f1 to a port on loopback there.
type connection struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  command.Output
	from string // its own port
}

// connectAs connects as a user from a port, or from any for "0", sends a text and, with reset,
// resets the connection.
func connectAs(t *testing.T, c *lab.Cluster, uid int, from, port, text string, reset bool) *connection {
	t.Helper()
	p := &connection{t: t, cmd: onAs(t, c, "f1", uid, `exec "$@"`, command.Binary("caller"), "-from", from, "-reset="+
		strconv.FormatBool(reset), "127.0.0.1:"+port)}
	p.cmd.Stdin = strings.NewReader(text)
	p.cmd.Stdout = &p.out
	p.cmd.Stderr = &p.out
	must.OK(t, p.cmd.Start())
	must.Until(t, "a connection of user "+strconv.Itoa(uid), func() bool {
		line, _, sent := strings.Cut(p.out.String(), "\n")
		p.from = line
		return sent
	})
	if reset {
		p.end()
	}
	return p
}

// end waits for the end of the connection and returns what came.
func (p *connection) end() string {
	p.t.Helper()
	check.OK(p.t, p.cmd.Wait(), &p.out)
	_, answer, _ := strings.Cut(p.out.String(), "\n")
	return answer
}

// stoppedAgent stops the agent of the job until the caller calls resume. Connections then wait for
// it to accept them.
func stoppedAgent(t *testing.T) (resume func()) {
	t.Helper()
	for _, pid := range command.Processes() {
		if strings.Contains(command.ProcFile(pid, "cmdline"), "__serve") {
			send := func(signal syscall.Signal) { must.OK(t, syscall.Kill(pid, signal)) }
			send(syscall.SIGSTOP)
			return func() { send(syscall.SIGCONT) }
		}
	}
	t.Fatal("no agent")
	return nil
}

// ports waits until all ranks have printed "port RANK PORT" and returns the ports by rank.
func ports(t *testing.T, r *command.Run, ranks int) []string {
	t.Helper()
	found := make([]string, ranks)
	must.Until(t, "the ranks' ports:\n"+r.Err.String(), func() bool {
		lines := regexp.MustCompile(`port (\d+) (\d+)\n`).FindAllStringSubmatch(r.Out.String(), -1)
		for _, line := range lines {
			rank, _ := strconv.Atoi(line[1])
			found[rank] = line[2]
		}
		return len(lines) == ranks
	})
	return found
}

// Another user of the host publishes no address at Horovod's rendezvous. The agent asks the kernel
// who has the other end of a connection: here the attacker sends, resets the connection, and the
// victim has the same port when the agent asks.
func TestRendezvousTakesNoAddressOfAnotherUser(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	r := command.Start(t, c, "--prefix", "none", "-np", "2", "-H", "f1:2", "sh", "-c",
		"echo port $RANK $HOROVOD_GLOO_RENDEZVOUS_PORT; exec sleep 1000")
	port := ports(t, r, 2)
	put := func(scope string, rank int, word string) string {
		addresses := bytes.Repeat([]byte(word), 136/len(word)) // a record, which the agent takes as it is
		return fmt.Sprintf("PUT /%s/%d HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", scope, rank,
			len(addresses), addresses)
	}
	check.Equal(t, connectAs(t, c, attacker, "0", port[0], put("plain", 0, "lies"), false).end(), "",
		"the attacker gets")
	for round := range 5 {
		scope := fmt.Sprintf("scope%d", round)
		resume := stoppedAgent(t)
		evil := connectAs(t, c, attacker, "0", port[0], put(scope, 0, "lies"), true)
		good := connectAs(t, c, victim, evil.from, port[0], put(scope, 0, "true"), false)
		resume()
		if answer := good.end(); !strings.Contains(answer, "200 OK") {
			t.Errorf("rank 0 publishes its addresses and gets %q", answer)
		}
		connectAs(t, c, victim, "0", port[1], put(scope, 1, "true"), false).end()
		get := "GET /" + scope + "/0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
		answer := connectAs(t, c, victim, "0", port[1], get, false).end()
		check.That(t, strings.HasSuffix(answer, "truetrue"),
			"rank 1 asks for the addresses of rank 0 and gets %q", answer)
	}
	r.Stop()
}

// Another user of the host does not speak for a rank at the port where MPI programs in containers
// find the others.
func TestMPIPortAnswersNoOtherUser(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	docker := filepath.Join(c.Dir, "docker") // ranks in docker get a port instead of a socket
	must.OK(t, os.WriteFile(docker, []byte("#!/bin/sh\necho port $PMI_ID ${PMI_PORT#*:}; exec sleep 1000\n"), 0o755))
	r := command.Start(t, c, "--prefix", "none", "-np", "2", "-H", "f1:2", docker, "run", "image", "program")
	port := ports(t, r, 2)[0]
	const hello = "cmd=initack pmiid=0\n"
	const abort = "cmd=abort exitcode=9\n"
	const hello2 = "cmd=init pmi_version=2 pmi_subversion=0\n23    cmd=fullinit;pmirank=1;"
	const abort2 = "21    cmd=abort;exitcode=9;" // of PMI-2
	for _, words := range []string{hello + abort, hello2 + abort2} {
		check.Equal(t, connectAs(t, c, attacker, "0", port, words, false).end(), "", "the attacker gets")
	}
	resume := stoppedAgent(t)
	evil := connectAs(t, c, attacker, "0", port, hello+abort, true)
	good := connectAs(t, c, victim, evil.from, port, hello, false)
	resume()
	must.Until(t, "an answer to rank 0", func() bool {
		return strings.Contains(good.out.String(), "cmd=set rank=0\n")
	})
	// Ranks in containers may be root.
	good2 := connectAs(t, c, 0, "0", port, hello2, false)
	must.Until(t, "an answer to rank 1", func() bool {
		return strings.Contains(good2.out.String(), ";rank=1;size=2;")
	})
	r.Stop()
}

// libpmix believes the user that a client claims to be. gorun-pmix closes connections of other
// users before libpmix sees them.
func TestPMIxServerAnswersNoOtherUser(t *testing.T) {
	if _, err := os.Stat(command.Binary("gorun-pmix")); err != nil {
		lab.Skip(t, "needs a C compiler, pkg-config and libpmix-dev")
	}
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	r := command.Start(t, c, "--prefix", "none", "--mpi", "pmix", "-np", "1", "-H", "f1", "sh", "-c",
		`echo mode $(stat -c %a "$PMIX_SERVER_TMPDIR"); echo port $RANK ${PMIX_SERVER_URI41##*:}; exec sleep 1000`)
	port := ports(t, r, 1)[0]
	if !strings.Contains(r.Out.String(), "mode 700\n") { // it has the ranks' data
		t.Errorf("other users may enter the server's folder: %s", r.Out.String())
	}
	// A client's first message has a length of its own; half of it keeps libpmix waiting.
	check.Equal(t, connectAs(t, c, attacker, "0", port, "half", false).end(), "", "the attacker gets")
	own := connectAs(t, c, victim, "0", port, "half", false)
	ended := make(chan struct{})
	go func() { _ = own.cmd.Wait(); close(ended) }()
	select {
	case <-ended:
		t.Errorf("the user's own connection was closed: %s", &own.out)
	case <-time.After(500 * time.Millisecond):
	}
	check.OK(t, own.cmd.Process.Kill())
	<-ended
	r.Stop()
}
