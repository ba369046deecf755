package gloo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

// driven are the epochs of one process, as a test determines.
type driven struct {
	mu          sync.Mutex
	epoch       Epoch
	changed     chan struct{} // closed at each change
	interrupted chan struct{}
	failed      chan struct{}
	severed     []map[netip.AddrPort]bool
	over        bool
	parks       []int
	joins       []int
	notes       []string
}

func newDriven() *driven {
	return &driven{changed: make(chan struct{}), interrupted: make(chan struct{}), failed: make(chan struct{})}
}

func (d *driven) Park(ctx context.Context, left int) (Epoch, error) {
	d.mu.Lock()
	d.parks = append(d.parks, left)
	for d.epoch.Number <= left && !d.over {
		changed := d.changed
		d.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return Epoch{}, ctx.Err()
		}
		d.mu.Lock()
	}
	defer d.mu.Unlock()
	if d.over {
		return Epoch{}, errors.New("the job is over")
	}
	return d.epoch, nil
}

func (d *driven) Joined(epoch int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.joins = append(d.joins, epoch)
}

func (d *driven) Interrupted(epoch int) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.interrupted
}

func (d *driven) Failed(epoch int) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if epoch != d.epoch.Number {
		return nil
	}
	return d.failed
}

func (d *driven) Sever(addrs map[netip.AddrPort]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.severed = append(d.severed, addrs)
}

func (d *driven) Note(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, text)
}

func (d *driven) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	close(d.changed)
	d.changed = make(chan struct{})
}

// letIn lets the process into an epoch in which all ranks are of one host.
func (d *driven) letIn(number, rank, size int) {
	d.change(func() {
		d.epoch = Epoch{
			Number:    number,
			Rank:      rank,
			Size:      size,
			LocalRank: rank,
			LocalSize: size,
			CrossSize: 1,
		}
		d.interrupted = make(chan struct{})
		d.failed = make(chan struct{})
	})
}

func (d *driven) heard() (parks, joins []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.parks), slices.Clone(d.joins)
}

// member is a process of an elastic job.
type member struct {
	*driven
	*Elastic
	port int
}

func newMember(t *testing.T, s *fake.Store, born int) *member {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{driven: newDriven()}
	m.Elastic = NewElastic(ctx, s, m.driven, born, func(a netip.Addr) bool {
		return a == netip.MustParseAddr("10.0.0.1")
	})
	l := must.Get(Listen())(t)
	m.port = l.Addr().(*net.TCPAddr).Port
	served := make(chan struct{})
	go func() {
		defer close(served)
		m.Serve(l, func(net.Conn) bool { return true })
	}()
	t.Cleanup(func() {
		cancel()
		l.Close()
		<-served
		m.Wait()
	})
	return m
}

// oneHost is the world of members whose ranks are their places in the list, all on one host.
func oneHost(members ...*member) *world {
	w := &world{perHost: len(members), size: len(members)}
	for i, m := range members {
		w.ranks = append(w.ranks, i)
		w.ports = append(w.ports, m.port)
	}
	return w
}

// reborn asks for a member's next numbers.
func reborn(w *world, rank int) chan string {
	answer := make(chan string, 1)
	go func() {
		status, value, err := w.ask(rank, "GET", "/rank_and_size/f0:0", nil)
		answer <- fmt.Sprint(status, " ", string(value), " ", err)
	}()
	return answer
}

func wantParks(t *testing.T, m *member, want ...int) {
	t.Helper()
	parks, _ := m.heard()
	check.That(t, slices.Equal(parks, want), "it parked after %v, want %v", parks, want)
}

// Processes go from epoch to epoch: one comes, one goes, and the numbers of those that stay change.
func TestElasticEpochs(t *testing.T) {
	s := fake.NewStore(1)
	a := newMember(t, s, 1)
	b := newMember(t, s, 1)
	w := oneHost(a, b)
	met := make(chan error, 1)
	go func() { met <- w.rendezvous(1, atOnce) }()
	for _, m := range []*member{a, b} { // they live, and wait to be let in
		must.Until(t, "a sign of life", func() bool { parks, _ := m.heard(); return len(parks) == 1 })
	}
	select {
	case err := <-met:
		t.Fatalf("they met before the epoch began: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	a.letIn(1, 0, 2)
	b.letIn(1, 1, 2)
	must.OK(t, <-met)
	for _, m := range []*member{a, b} {
		if parks, joins := m.heard(); !slices.Equal(parks, []int{0}) || !slices.Equal(joins, []int{1}) {
			t.Errorf("parked after %v, joined %v", parks, joins)
		}
	}

	// One more has come. It publishes where it is before the others have left their epoch; they ask
	// twice.
	c := newMember(t, s, 2)
	w = oneHost(b, a, c)
	w.mustAsk(t, 2, "PUT", "/global/rank_2", []byte("host"))
	must.Until(t, "a sign of life", func() bool { parks, _ := c.heard(); return len(parks) == 1 })
	answers := []chan string{reborn(w, 0), reborn(w, 0), reborn(w, 1)}
	for _, m := range []*member{a, b} {
		must.Until(t, "the question for the next epoch", func() bool { parks, _ := m.heard(); return len(parks) == 2 })
	}
	select {
	case got := <-answers[0]:
		t.Fatalf("answered %s before there was an epoch", got)
	case <-time.After(50 * time.Millisecond):
	}
	a.letIn(2, 1, 3)
	b.letIn(2, 0, 3)
	c.letIn(2, 2, 3)
	for i, want := range []string{"200 0,3,0,3,0,1 <nil>", "200 0,3,0,3,0,1 <nil>", "200 1,3,1,3,0,1 <nil>"} {
		check.Equal(t, <-answers[i], want, "answer", i)
	}
	wantParks(t, a, 0, 1)
	if got := <-reborn(w, 0); got != "200 0,3,0,3,0,1 <nil>" { // the answer was lost
		t.Errorf("asked again: %s", got)
	}
	must.OK(t, w.rendezvous(2, atOnce))
	wantParks(t, b, 0, 1, 1) // the last did not wait: its epoch was there
	wantParks(t, c, 0)

	// One is gone.
	w = oneHost(b, c)
	answers = []chan string{reborn(w, 0), reborn(w, 1)}
	b.letIn(3, 0, 2)
	c.letIn(3, 1, 2)
	for i, want := range []string{"200 0,2,0,2,0,1 <nil>", "200 1,2,1,2,0,1 <nil>"} {
		check.Equal(t, <-answers[i], want, "answer", i)
	}
	must.OK(t, w.rendezvous(3, atOnce))
	if _, _, err := w.ask(0, "DELETE", "/cross_0/0", nil); err != nil { // once is enough
		t.Error(err)
	}
	_, joins := b.heard()
	check.That(t, slices.Equal(joins, []int{1, 2, 3}), "it joined %v", joins)
}

// A process whose epoch never begins finds no other; one that asks for an epoch after the job's end
// does not live on.
func TestElasticEnds(t *testing.T) {
	must.HaveTime(t)
	t.Parallel()
	s := fake.NewStore(1)
	late := newMember(t, s, 1)
	left := newMember(t, s, 1)
	w := oneHost(late, left)
	for rank := range 2 {
		w.mustAsk(t, rank, "PUT", "/global/rank_"+addressOf(rank), nil)
	}
	late.letIn(2, 0, 2)
	status, _, err := w.ask(0, "GET", "/global/rank_1", nil)
	check.That(t, status == 500 && err == nil, "a question in an epoch that has passed: %d, %v", status, err)
	left.letIn(1, 1, 2)
	answer := reborn(w, 1)
	must.Until(t, "the question for the next epoch", func() bool { parks, _ := left.heard(); return len(parks) == 2 })
	left.change(func() { left.over = true })
	select {
	case got := <-answer:
		t.Errorf("answered %s at once: gorun has no time to end it", got)
	case <-time.After(removeTime / 2):
	}
	check.Equal(t, <-answer, "200 -1,-1,-1,-1,-1,-1 <nil>", "at the job's end")
}

// A process that goes on asking in an epoch that it leaves harms nobody.
func TestElasticAsksWhileItLeaves(t *testing.T) {
	m := newMember(t, fake.NewStore(1), 1)
	w := oneHost(m, m)
	m.letIn(1, 0, 1)
	var asking sync.WaitGroup
	over := make(chan struct{})
	for asker := range 3 {
		asking.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				if _, _, err := w.ask(0, "PUT", fmt.Sprintf("/global%d.%d/rank_0", asker, i),
					make([]byte, recordSize)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for epoch := 2; epoch < 60; epoch++ {
		m.letIn(epoch, 0, 1)
		if got := <-reborn(w, 0); got != "200 0,1,0,1,0,1 <nil>" {
			t.Errorf("epoch %d: %s", epoch, got)
		}
	}
	close(over)
	asking.Wait()
}
