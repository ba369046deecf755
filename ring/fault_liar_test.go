package ring_test

import (
	"sync"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
	"github.com/gorun/gorun/ring/internal/boot"
)

// liar is a hostile rank: whenever another one has put a key into the job's store, it puts a lie
// there.
type liar struct {
	told chan struct{} // gets a value when it has lied, or could not

	mu  sync.Mutex
	now string // key of the lie that is under way
}

// lies begins the lies of a rank, until the test ends.
func lies(t testing.TB, d *ringtest.Job, rank int, lie string) *liar {
	l := &liar{told: make(chan struct{}, 1)}
	at := d.Rank(rank, "127.0.0.1")
	agent := boot.NewClient(at.Agent, at.Token)
	keys := make(chan string, 1<<10)
	var lying sync.WaitGroup
	lying.Go(func() {
		for {
			select {
			case key := <-keys:
				l.lies(key)
				_ = agent.Put(t.Context(), key, []byte(lie)) // it may be refused
				l.lies("")
			case <-t.Context().Done():
				return
			}
			select {
			case l.told <- struct{}{}:
			default:
			}
		}
	})
	d.OnPut(func(key string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if key != l.now {
			select {
			case keys <- key:
			default: // there are enough
			}
		}
	})
	t.Cleanup(func() {
		lying.Wait()
		agent.Close()
	})
	return l
}

func (l *liar) lies(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = key
}

// says puts a key into the job's store as a rank.
func says(t testing.TB, d *ringtest.Job, rank int, key, value string) {
	at := d.Rank(rank, "127.0.0.1")
	agent := boot.NewClient(at.Agent, at.Token)
	defer agent.Close()
	must.OK(t, agent.Put(t.Context(), key, []byte(value)))
}

// A rank that puts what it likes into the job's store does not keep others from making a group.
func TestGroupBesideALiar(t *testing.T) {
	d := ringtest.NewJob(t, 3)
	comms := d.Join(t)
	l := lies(t, d, 2, "a lie")
	ringtest.All(t, 2, func(rank int) error {
		if rank == 1 {
			<-l.told // about what rank 0 has put
		}
		g, err := ring.Group(ctx, comms[rank], "pair", []int{0, 1})
		if err != nil {
			return err
		}
		return ring.Barrier(ctx, g)
	})
	check.Equal(t, len(d.Losses()), 0, "ranks were named")
}
