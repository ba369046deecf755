package stub

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/fake"
)

// Spec describes the hosts and what their ranks do, all alike.
type Spec struct {
	Hosts, Slots int
	Build        string        // the build id of the launcher
	Fence        int           // bytes of a rank's value in one fence of all ranks; 0: there is no fence
	Lines        int           // lines that each rank prints
	Hold         time.Duration // how long ranks run
	Fail         int           // ranks from this one on exit with 3; negative: none does
}

// agent speaks the protocol of a host's agent, whose ranks do what the spec says. It returns when
// the launcher has ended the session.
func (h *Hosts) agent(number int, nonce string, in io.Reader, out io.Writer) error {
	if _, err := out.Write(wire.Preamble(nonce)); err != nil {
		return err
	}
	address := netip.AddrFrom4([4]byte{10, byte(number >> 16), byte(number >> 8), byte(number)})
	a := &fake.Agent{
		Ctx:    context.Background(),
		Frames: wire.NewReader(in),
		Out:    wire.NewWriter(out),
		Stdout: out,
	}
	name := fmt.Sprintf("stub%05d", number)
	hello := wire.Hello{
		Protocol:  wire.Protocol,
		Build:     h.spec.Build,
		PID:       os.Getpid(),
		Hostname:  name,
		Boot:      name,
		Cores:     h.spec.Slots,
		Reached:   address.String(),
		Addresses: []wire.Address{{Interface: "eth0", Prefix: netip.PrefixFrom(address, 8), Up: true}},
	}
	if err := a.Out.SendMessage(wire.TypeHello, hello); err != nil {
		return err
	}
	if _, err := a.Expect(wire.TypeHello); err != nil {
		return nil // the launcher has no use for this agent
	}
	began := time.Now()
	over := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(over)
	wg.Go(func() { beat(a.Out, began, over) })
	if err := a.Ready(); err != nil {
		return gone(err)
	}
	if err := h.spec.fence(a); err != nil {
		return gone(err)
	}
	for _, r := range a.Job.Ranks {
		for i := range h.spec.Lines {
			if err := a.Print(r.Rank, wire.Stdout, fmt.Sprintf("rank %d line %d\n", r.Rank, i)); err != nil {
				return gone(err)
			}
		}
	}
	time.Sleep(h.spec.Hold)
	for _, r := range a.Job.Ranks {
		e := wire.Exit{
			Rank:   r.Rank,
			At:     time.Since(began),
			CPU:    time.Millisecond,
			MaxRSS: 1 << 20,
		}
		if h.spec.Fail >= 0 && r.Rank >= h.spec.Fail {
			e.Code = 3
		}
		if err := a.Exit(e); err != nil {
			return gone(err)
		}
	}
	if err := a.Out.Send(wire.TypeDone, 0, nil); err != nil {
		return gone(err)
	}
	return a.UntilEOF()
}

// gone drops the error of a launcher that has ended the session.
func gone(error) error { return nil }

// beat sends heartbeats each second, as agents do.
func beat(out *wire.Writer, began time.Time, over <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for out.SendHeartbeat(time.Since(began)) == nil {
		select {
		case <-tick.C:
		case <-over:
			return
		}
	}
}

// fence takes the host's ranks through a fence of the whole job.
func (s Spec) fence(a *fake.Agent) error {
	if s.Fence == 0 {
		return nil
	}
	part := wire.Fence{Name: "stub", Values: map[int][]byte{}}
	for _, r := range a.Job.Ranks {
		part.Values[r.Rank] = make([]byte, s.Fence)
	}
	if err := a.Out.SendMessage(wire.TypeFence, part); err != nil {
		return err
	}
	_, err := a.Expect(wire.TypeFenced)
	return err
}
