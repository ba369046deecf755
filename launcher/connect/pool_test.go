package connect

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/session"
)

// A job's loop cuts the connections of a lost host while their readers wait for the loop.
func TestCutDoesNotWaitForConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &closing{heard: make(chan struct{})}
		var pool Pool
		must.Get(pool.Take(func() (session.Host, error) { return conn, nil }))(t)
		var wg sync.WaitGroup
		check.That(t, pool.Cut(&wg) && len(pool.conns) == 0, "%+v", pool.conns)
		close(conn.heard) // the loop goes on to take it
		wg.Wait()
	})
}

// Each connection is over once, with its last session, whether it was cut or not.
func TestConnectionsAreOverWithTheirLastSession(t *testing.T) {
	for _, cut := range []bool{false, true} {
		over := 0
		pool := Pool{Over: func(session.Host) { over++ }}
		dial := func() (session.Host, error) { return &fake.Machine{}, nil }
		first := must.Get(pool.Take(dial))(t)
		second := must.Get(pool.Take(dial))(t)
		must.That(t, first == second, "two sessions have two connections")
		if cut {
			var wg sync.WaitGroup
			pool.Cut(&wg)
			wg.Wait()
		}
		pool.Release(first)
		check.Equal(t, over, 0, "with a session")
		pool.Release(second)
		check.Equal(t, over, 1, "without one")
	}
}

// closing is a connection whose Close waits.
type closing struct {
	fake.Machine
	heard chan struct{}
}

func (c *closing) Close() error {
	<-c.heard
	return nil
}
