package gloo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Epoch is one of an elastic job's, as a process is let into it.
type Epoch struct {
	Number, Rank, Size, LocalRank, LocalSize, CrossRank, CrossSize int
}

// Epochs is how a process of an elastic job goes from one epoch to the next.
type Epochs interface {
	// Park reports that the process has left an epoch, 0 if it has been in none, and waits for a later one.
	Park(ctx context.Context, left int) (Epoch, error)
	// Joined reports that the process has found the others of an epoch.
	Joined(epoch int)
	// Interrupted returns a channel that is closed when the process is to leave an epoch as soon as it can.
	Interrupted(epoch int) <-chan struct{}
	// Failed returns a channel that is closed when an epoch cannot go on: one of its ranks is lost.
	Failed(epoch int) <-chan struct{}
	// Sever shuts down the connections of the process that have one of the addresses at either end.
	Sever(addrs map[netip.AddrPort]bool)
	// Note shows the job's user a line about the process.
	Note(text string)
}

// What elastic workers ask for besides.
const (
	rankAndSize     = "rank_and_size"    // GET HOST:LOCAL-RANK: the numbers in the next epoch
	workerAddresses = "worker_addresses" // PUT HOST:LOCAL-RANK: where the worker takes notices
)

// removeTime is how long a worker that asks for an epoch which will never be may live on before it is told so, which it does not survive. It should have been
// ended by then, without its cries.
const removeTime = 5 * time.Second

var errLate = errors.New("the epoch that the process was started for has passed")

// Elastic is one process of an elastic job as it speaks to its own port. Its methods may be called concurrently.
type Elastic struct {
	ctx    context.Context // ends with the job
	store  Store
	epochs Epochs
	local  func(netip.Addr) bool // whether an address is this host's
	wg     sync.WaitGroup

	mu      sync.Mutex
	stay    *stay
	asked   *next         // the process waits for the next epoch
	worker  *worker       // nil: it takes no notices, as far as is known
	noted   bool          // the user knows that it could not say where
	changed chan struct{} // closed when there is another worker
}

// stay is the time of a process in one epoch.
type stay struct {
	number int
	rank   *Rank
	ctx    context.Context // ends when the process leaves
	leave  context.CancelFunc
	inside sync.WaitGroup // what is being answered in it
	used   bool           // the process has begun to meet the others
	joined bool
	before int  // the epoch before that it has used, 0 for none
	let    bool // it was let in before it came
	begun  chan struct{}
	err    error         // once begun: the epoch is not to be
	silent chan struct{} // closed when the process gets no notice of this epoch any more
	ends   *ends
}

// next is the answer to a process that asks for the next epoch.
type next struct {
	done  chan struct{}
	epoch Epoch
	err   error
}

// NewElastic answers a process that is started for the epoch born until ctx ends; local reports whether an address is
// this host's own.
func NewElastic(ctx context.Context, store Store, epochs Epochs, born int, local func(netip.Addr) bool) *Elastic {
	e := &Elastic{ctx: ctx, store: store, epochs: epochs, local: local, changed: make(chan struct{})}
	e.stay = e.newStay(born, 0)
	return e
}

func (e *Elastic) newStay(number, before int) *stay {
	s := &stay{number: number, before: before, begun: make(chan struct{}), silent: make(chan struct{}), ends: newEnds()}
	s.ctx, s.leave = context.WithCancel(e.ctx)
	host := NewHost(s.ctx, &epochStore{e.store, s})
	host.apart = true
	s.rank = host.Rank()
	return s
}

// epochStore keeps what is published in one epoch apart from all others'.
type epochStore struct {
	Store
	*stay
}

func (s *epochStore) key(key string) string { return "epoch/" + strconv.Itoa(s.number) + "/" + key }

// Put does not wait for the epoch: that a new process publishes something is how others know that it lives.
func (s *epochStore) Put(key string, value []byte) error { return s.Store.Put(s.key(key), value) }

func (s *epochStore) Get(ctx context.Context, key string, wait time.Duration) ([]byte, bool, error) {
	select {
	case <-s.begun:
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	if s.err != nil {
		return nil, false, s.err
	}
	return s.Store.Get(ctx, s.key(key), wait)
}

// Serve answers the process at its own port like Rank.Serve.
func (e *Elastic) Serve(listener net.Listener, admit func(net.Conn) bool) {
	serve(e.ctx, e, newBuffers(), listener, admit)
}

// Wait returns when nothing is asked of anybody any more. The context must have ended, and Serve have returned.
func (e *Elastic) Wait() {
	e.wg.Wait()
	e.stay.leave()
	e.stay.rank.host.Wait()
}

// reply is replier's.
func (e *Elastic) reply(ctx context.Context, req request, body []byte, wait func()) answer {
	switch {
	case req.scope == rankAndSize && req.method == "GET":
		wait()
		return e.next(ctx)
	case req.scope == workerAddresses && req.method == "PUT":
		e.register(body)
		return ok() // a worker does not live on without
	}
	s := e.enter()
	defer s.inside.Done()
	a := s.rank.reply(ctx, req, body, wait)
	s.ends.note(req, body, a)
	if req.method == "DELETE" && isLast(req.scope) {
		e.join(s)
	}
	return a
}

// isLast reports whether a scope is the last in which Horovod meets when it begins.
func isLast(scope string) bool {
	number, is := strings.CutPrefix(scope, "cross_")
	_, isRank := rankOf(number)
	return is && isRank
}

// enter notes that the process meets the others of its epoch, and is inside until who called is through. The first time it says that it lives.
func (e *Elastic) enter() *stay {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stay
	s.inside.Add(1)
	if !s.used && !s.let {
		e.wg.Go(func() {
			epoch, err := e.epochs.Park(s.ctx, 0)
			if err == nil && epoch.Number != s.number {
				err = errLate
			}
			e.begin(s, epoch, err)
		})
	}
	s.used = true
	return s
}

// begin lets the process into the epoch that it stays in.
func (e *Elastic) begin(s *stay, epoch Epoch, err error) {
	s.err = err
	close(s.begun)
	if err != nil || epoch.Rank != 0 {
		close(s.silent)
		return
	}
	e.wg.Go(func() { e.notify(s) })
}

func (e *Elastic) join(s *stay) {
	e.mu.Lock()
	first := !s.joined
	s.joined = true
	e.mu.Unlock()
	if first {
		e.epochs.Joined(s.number)
		e.wg.Go(func() { e.watch(s) })
	}
}

// next waits for the next epoch. A process that asks again before it has made use of the answer gets the same.
func (e *Elastic) next(ctx context.Context) answer {
	e.mu.Lock()
	n := e.asked
	if n == nil {
		n = &next{done: make(chan struct{})}
		e.asked = n
		e.wg.Go(func() { e.ask(n) })
	}
	e.mu.Unlock()
	select {
	case <-n.done:
	case <-ctx.Done():
		return failed()
	}
	a, p := ok(), n.epoch
	if n.err != nil {
		p = Epoch{Rank: -1, Size: -1, LocalRank: -1, LocalSize: -1, CrossRank: -1, CrossSize: -1}
		select {
		case <-time.After(removeTime):
		case <-ctx.Done():
			return failed()
		}
	}
	a.value = fmt.Appendf(nil, "%d,%d,%d,%d,%d,%d", p.Rank, p.Size, p.LocalRank, p.LocalSize, p.CrossRank, p.CrossSize)
	return a
}

// ask has the process leave its epoch, and go on in the next.
func (e *Elastic) ask(n *next) {
	e.mu.Lock()
	s, used, left := e.stay, e.stay.used, e.stay.before
	if used {
		left = s.number
		s.leave()
	}
	e.mu.Unlock()
	n.epoch, n.err = e.epochs.Park(e.ctx, left)
	if n.err == nil && n.epoch.Number != s.number {
		s.leave()
		if used || s.let { // and so it has begun, or will
			<-s.silent // a late notice would be taken for one of the new epoch
		}
		old := s
		s = e.newStay(n.epoch.Number, left)
		s.let = true
		e.begin(s, n.epoch, nil)
		defer e.wg.Go(func() { // nobody enters it any more
			old.inside.Wait()
			old.rank.host.Wait()
		})
	}
	e.mu.Lock()
	if n.err == nil { // else there is nothing left to ask
		e.stay, e.asked = s, nil
	}
	e.mu.Unlock()
	close(n.done)
}
