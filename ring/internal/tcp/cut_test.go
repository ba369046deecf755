package tcp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/ring/internal/flow"
)

// TestRankProcess is the process that TestCut runs on two hosts: a rank that prints its
// address, reads the other's, and runs flows until they fail.
func TestRankProcess(t *testing.T) {
	var rank int
	var own netip.Addr
	var how string
	if _, err := fmt.Sscan(os.Getenv("GORUN_TCP_RANK"), &rank, &how); err != nil {
		return
	}
	own = netip.MustParseAddr(os.Getenv("GORUN_TCP_ADDR"))
	n := open(t, 2, own)
	fmt.Println("at", n.Addrs()[0])
	text, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addrs := [][]netip.AddrPort{n.Addrs(), n.Addrs()}
	addrs[1-rank] = []netip.AddrPort{netip.MustParseAddrPort(strings.TrimSpace(text))}
	if err := n.Meet(identity(rank, 2), peersAt(addrs)); err != nil {
		t.Fatal(err)
	}
	size := 1 << 20
	if how != "busy" {
		size = 8
	}
	f := exchange(1-rank, make([]byte, size), make([]byte, size))
	for i := 0; err == nil; i++ {
		if i == 20 {
			fmt.Println("moving")
			switch {
			case how == "idle" && rank == 0:
				f = &flow.Flow{Sign: &flow.Sign{1}, To: flow.None, From: 1}
			case how == "full" && rank == 0:
				f = sending(&flow.Sign{1}, 1, make([]byte, 64<<20))
			case how != "busy":
				io.Copy(io.Discard, os.Stdin) // the other one goes on alone
				return
			}
		}
		err = n.Run(f)
	}
	var peer *PeerError
	if errors.As(err, &peer) && peer.Rank == 1-rank && !errors.Is(err, ErrClosed) {
		fmt.Println("failed:", err)
	}
	fmt.Println("ended:", err)
}

// pair holds ranks 0 and 1 on the two hosts of a cluster.
type pair struct {
	said [2]*bufio.Scanner
	in   [2]io.Writer
}

// startPair starts both ranks, and returns when they are moving data.
func startPair(t *testing.T, c *lab.Cluster, how string) *pair {
	p := &pair{}
	var at [2]string
	for rank, host := range []string{"f1", "f2"} {
		cmd := c.On(t.Context(), host, os.Args[0], "-test.run=^TestRankProcess$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("GORUN_TCP_RANK=%d %s", rank, how), "GORUN_TCP_ADDR="+
			c.Host(host).Addr)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stdin.Close(); cmd.Process.Kill(); cmd.Wait() })
		p.said[rank] = bufio.NewScanner(out)
		p.in[rank] = stdin
		at[rank] = hear(t, p.said[rank], "at ")
	}
	for rank := range p.in {
		fmt.Fprintln(p.in[rank], at[1-rank])
	}
	for rank := range p.said {
		hear(t, p.said[rank], "moving")
	}
	return p
}

// A dead network is an error some seconds after the last sign of life: while data moves, while
// one rank waits for the other, and while one sends and the other does not read.
func TestCut(t *testing.T) {
	t.Parallel()
	lab.NeedKernel(t, "TCP_INFO")
	if os.Getuid() != 0 {
		lab.Skip(t, "needs root")
	}
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	pairs := map[string]*pair{}
	for _, how := range []string{"full", "idle", "busy"} {
		pairs[how] = startPair(t, c, how)
	}
	time.Sleep(time.Second) // until the sockets are full, and probes have begun
	if err := c.Cut(t.Context(), "f2"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var waiting sync.WaitGroup
	for how, p := range pairs {
		waiting.Go(func() {
			why := hear(t, p.said[0], "failed: ")
			took := time.Since(start)
			t.Logf("%s: %s after %v", how, why, took)
			if took < secure.Silence/2 || took > 6500*time.Millisecond {
				t.Errorf("%s: failed after %v", how, took)
			}
			if !strings.Contains(why, unix.ETIMEDOUT.Error()) {
				t.Errorf("%s: failed by %s", how, why)
			}
		})
	}
	waiting.Wait()
}

// hear waits for a line with the prefix begin, and returns the rest of it.
func hear(t *testing.T, lines *bufio.Scanner, begin string) string {
	t.Helper()
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), begin); ok {
			return rest
		}
		t.Log(lines.Text())
	}
	t.Errorf("the rank ended before it said %q", begin)
	return ""
}
