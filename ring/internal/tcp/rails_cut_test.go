package tcp

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func TestMain(m *testing.M) {
	lab.Play(map[string]func(string) error{"rail": playRail})
	os.Exit(m.Run())
}

// playRail is the role of a rank on two rails, "RANK ADDR ADDR": it prints its addresses, reads the
// other's, and swaps vectors until rank 0's standard input ends.
func playRail(told string) error {
	words := strings.Fields(told)
	rank, _ := strconv.Atoi(words[0])
	own := []netip.Addr{netip.MustParseAddr(words[1]), netip.MustParseAddr(words[2])}
	n, err := Listen(context.Background(), own, Config{Config: secure.Config{Stripes: 1}})
	if err != nil {
		return err
	}
	defer n.Close()
	fmt.Println("at", n.Addrs()[0], n.Addrs()[1])
	in := bufio.NewReader(os.Stdin)
	text, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	var theirs []netip.AddrPort
	for word := range strings.FieldsSeq(text) {
		theirs = append(theirs, netip.MustParseAddrPort(word))
	}
	peers := make([]secure.Peer, 2)
	peers[rank] = secure.Peer{Addrs: n.Addrs(), Rails: railsOf(n.Addrs())}
	peers[1-rank] = secure.Peer{Addrs: theirs, Rails: railsOf(theirs)}
	if err := n.Meet(identity(rank, 2), peers); err != nil {
		return err
	}
	var over atomic.Bool
	go func() {
		io.Copy(io.Discard, in)
		over.Store(true)
	}()
	fmt.Println("ended:", swapUntil(n, rank, over.Load))
	n.Deliver()
	return nil
}

// swapUntil swaps vectors until rank 0's over is true, and returns the longest time of one, or an
// error.
func swapUntil(n *Net, rank int, over func() bool) string {
	const size = 1 << 20
	out := payload(size)
	in := make([]byte, size)
	want := payload(size)
	var worst time.Duration
	for round := byte(0); ; round++ {
		out[0] = 0
		out[size-1] = round
		want[size-1] = round
		if rank == 0 && over() {
			out[0] = 1
		}
		start := time.Now()
		if err := n.Run(exchange(1-rank, out, in)); err != nil {
			return err.Error()
		}
		worst = max(worst, time.Since(start))
		if !bytes.Equal(in[1:], want[1:]) {
			return "other bytes"
		}
		if in[0]|out[0] != 0 {
			return worst.String()
		}
	}
}

// One of two rails is cut while vectors move and comes back: no byte is wrong, no flow fails, the
// other rail carries all meanwhile, and both do afterwards.
func TestRailIsCut(t *testing.T) {
	t.Parallel()
	lab.NeedKernel(t, "TCP_INFO")
	if os.Getuid() != 0 {
		lab.Skip(t, "needs root")
	}
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	hosts := []*lab.Host{c.Host("f1"), c.Host("f2")}
	command := func(argv ...string) {
		t.Helper()
		must.Run(t, exec.Command(argv[0], argv[1:]...))
	}
	on := func(host int, argv ...string) {
		t.Helper()
		command(append([]string{"nsenter", "-t", strconv.Itoa(hosts[host].PID), "-n", "--"}, argv...)...)
	}
	own := [][]string{{hosts[0].Addr, "10.79.1.1"}, {hosts[1].Addr, "10.79.1.2"}}
	command("ip", "link", "add", "rail1", "netns", strconv.Itoa(hosts[0].PID), "type", "veth", "peer", "name", "rail1",
		"netns", strconv.Itoa(hosts[1].PID))
	for i := range hosts {
		on(i, "ip", "addr", "add", own[i][1]+"/24", "dev", "rail1")
		on(i, "ip", "link", "set", "rail1", "up")
		for _, name := range []string{"eth0", "rail1"} {
			on(i, "tc", "qdisc", "add", "dev", name, "root", "tbf", "rate", "300mbit", "burst", "128kb", "latency",
				"20ms")
		}
	}

	var ranks [2]*lab.Program
	hear := func(rank int, begin string) string {
		t.Helper()
		line := must.Get(ranks[rank].Hear(begin))(t)
		return strings.TrimPrefix(line, begin)
	}
	var at [2]string
	for rank, h := range hosts {
		role := fmt.Sprint("rail ", rank, " ", strings.Join(own[rank], " "))
		ranks[rank] = lab.StartRole(t, c.On(t.Context(), h.Name, os.Args[0]), role)
		at[rank] = hear(rank, "at ")
	}
	for rank, p := range ranks {
		fmt.Fprintln(p.In, at[1-rank])
	}

	sent := func(name string) int {
		text := must.Get(c.On(t.Context(), "f1", "cat", "/proc/net/dev").Output())(t)
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 9 && fields[0] == name+":" {
				n, _ := strconv.Atoi(fields[9])
				return n
			}
		}
		t.Fatalf("no %s in %s", name, text)
		return 0
	}
	carries := func(when string, names ...string) {
		t.Helper()
		const enough = 4 << 20
		for _, name := range names {
			for begin, deadline := sent(name),
				time.Now().Add(time.Minute); sent(name) < begin+enough; time.Sleep(20 * time.Millisecond) {
				must.That(t, !time.Now().After(deadline), "%s: %s carries nothing", when, name)
			}
		}
	}
	carries("at first", "eth0", "rail1")
	on(1, "ip", "link", "set", "rail1", "down")
	carries("after the cut", "eth0")
	time.Sleep(3 * time.Second) // the lane's connection backs off
	on(1, "ip", "link", "set", "rail1", "up")
	carries("after the repair", "eth0", "rail1")
	on(1, "ip", "link", "set", "eth0", "down") // which the first connection is on
	carries("after the other cut", "rail1")
	on(1, "ip", "link", "set", "eth0", "up")
	carries("after the other repair", "eth0", "rail1")
	ranks[0].In.Close()
	for rank := range ranks {
		text := hear(rank, "ended: ")
		worst, err := time.ParseDuration(text)
		t.Logf("rank %d: longest swap %s", rank, text)
		check.That(t, err == nil && worst <= secure.Silence/2, "rank %d: %s", rank, text)
	}
}
