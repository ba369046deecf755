package bench

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
)

// On every layout one pair of ranks is timed, and all ranks print the same.
func TestWireIsTimedBetweenCalls(t *testing.T) {
	for _, hosts := range [][]int{{2}, {1, 1}, {2, 1}, {1, 2}} {
		job := ringtest.NewJob(t, sum(hosts))
		job.Hosts = hosts
		rows := rowsOf(t, job, Options{
			Collective: "allreduce",
			Min:        1 << 10,
			Max:        256 << 10,
			Factor:     256,
			Budget:     time.Millisecond,
			Wire:       true,
		})
		must.That(t, len(rows[0]) == 4, "hosts %v: %d rows, want 4", hosts, len(rows[0]))
		for i, r := range rows[0] {
			check.That(t, r.Wrong == 0 && r.WireTime > 0 && r.WireBW > 0 && r.WireShare > 0 && r == rows[1][i],
				"hosts %v: %+v on rank 0, %+v on rank 1", hosts, r, rows[1][i])
		}
	}
	for _, r := range rowsOf(t, ringtest.NewJob(t, 1), Options{
		Collective: "allreduce",
		Min:        8,
		Max:        8,
		Budget:     time.Microsecond,
		Wire:       true,
	})[0] {
		check.That(t, r.WireTime == 0, "a rank alone has a wire: %+v", r)
	}
}

func sum(v []int) (n int) {
	for _, x := range v {
		n += x
	}
	return n
}

// Both ends are on different hosts where there are several.
func TestWireJoinsTwoHosts(t *testing.T) {
	job := ringtest.NewJob(t, 5)
	job.Hosts = []int{3, 2}
	comms := job.Join(t)
	ends := make([]bool, 5)
	err := ringtest.Each(5, func(rank int) error {
		memory := [2][]byte{make([]byte, 1<<20), bytes.Repeat([]byte{byte(rank)}, 1<<20)}
		w, err := newWire(t.Context(), comms[rank], memory)
		if err != nil {
			return err
		}
		ends[rank] = w.conn != nil
		for _, size := range []int{1, inline, 1 << 20} {
			if _, err := w.time(nil, size, time.Microsecond); err != nil {
				return err
			}
			check.That(t, !ends[rank] || w.in[0] == byte(3-rank) && w.in[size-1] == byte(3-rank),
				"rank %d got other bytes than rank %d sent", rank, 3-rank)
		}
		return w.close()
	})
	check.That(t, err == nil && slices.Equal(ends, []bool{true, false, false, true, false}),
		"ends %v, %v; want ranks 0 and 3", ends, err)
}

func TestWireIsClosedToStrangers(t *testing.T) {
	hello := make([]byte, helloSize)
	l := must.Get(listen(t.Context(), true, hello))(t)
	defer l.Close()
	stranger := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	defer stranger.Close()
	must.Get(stranger.Write(make([]byte, 1<<10)))(t)
	knows, accepted := bothEnds(t, l, hello)
	must.That(t, accepted.RemoteAddr().String() == knows.LocalAddr().String(), "accepted %v", accepted)
	n, err := stranger.Read(make([]byte, 1))
	check.That(t, n <= 0 && err != nil, "the stranger's connection is open")
}

// bothEnds connects the ends of a wire.
func bothEnds(t *testing.T, l net.Listener, hello []byte) (dialled, accepted net.Conn) {
	t.Helper()
	var dialling sync.WaitGroup
	var failed error
	dialling.Go(func() { dialled, failed = dial(t.Context(), true, hello) })
	accepted, err := accept(t.Context(), l, hello[:nonceSize])
	dialling.Wait()
	must.OK(t, errors.Join(err, failed))
	t.Cleanup(func() {
		dialled.Close()
		accepted.Close()
	})
	return dialled, accepted
}

// Rank 0 says where it listens, which leads no other rank to a service of its own.
func TestWireLeadsToNoOwnService(t *testing.T) {
	t.Setenv("GORUN_ADDR", "10.0.0.2")
	for at, local := range map[string]bool{"127.0.0.1:6379": false, "127.0.0.1:22": true, "localhost:6379": true} {
		hello := make([]byte, helloSize)
		copy(hello[nonceSize:], at)
		conn, err := dial(t.Context(), local, hello)
		check.That(t, conn == nil && err != nil && !strings.Contains(err.Error(), "connect:"), "%s: %v", at, err)
	}
}

// Strangers who connect first and say nothing do not hold the ranks up.
func TestFloodDoesNotHoldUpTheWire(t *testing.T) {
	hello := make([]byte, helloSize)
	l := must.Get(listen(t.Context(), true, hello))(t)
	defer l.Close()
	for range 20 { // of which each had its time before
		stranger := must.Get(net.Dial("tcp", l.Addr().String()))(t)
		defer stranger.Close()
	}
	bothEnds(t, l, hello)
}

// Strangers may crowd out the connection of the rank, too. It is made again.
func TestCrowdedOutWireIsDialledAgain(t *testing.T) {
	hello := make([]byte, helloSize)
	l := must.Get(listen(t.Context(), true, hello))(t)
	defer l.Close()
	dialled, accepted := bothEnds(t, &crowded{Listener: l}, hello)
	must.Get(dialled.Write([]byte{1}))(t)
	must.Get(accepted.Read(make([]byte, 1)))(t)
}

// crowded is a listener whose first connection is closed before all that came is read.
type crowded struct {
	net.Listener
	once sync.Once
}

func (c *crowded) Accept() (net.Conn, error) {
	c.once.Do(func() {
		if conn, err := c.Listener.Accept(); err == nil {
			_, _ = conn.Read(make([]byte, 1))
			conn.Close()
		}
	})
	return c.Listener.Accept()
}
