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

// Epoch is an epoch of an elastic job and a process's rank in it.
type Epoch struct {
	Number, Rank, Size, LocalRank, LocalSize, CrossRank, CrossSize int
}

// Epochs moves a process of an elastic job from epoch to epoch.
type Epochs interface {
	// Park reports that the process has left an epoch (0 if it was in none) and waits for a later
	// one.
	Park(ctx context.Context, left int) (Epoch, error)
	// Joined reports that the process is connected to the others of an epoch.
	Joined(epoch int)
	// Interrupted returns a channel that is closed when the process must leave an epoch as soon as
	// it can.
	Interrupted(epoch int) <-chan struct{}
	// Failed returns a channel that is closed when an epoch has lost a rank.
	Failed(epoch int) <-chan struct{}
	// Sever shuts down the connections of the process that have one of the addresses at either end.
	Sever(addrs map[netip.AddrPort]bool)
	// Note prints a line about the process for the job's user.
	Note(text string)
}

// Scopes that only elastic workers use.
const (
	rankAndSize     = "rank_and_size"    // GET HOST:LOCAL-RANK: numbers in the next epoch
	workerAddresses = "worker_addresses" // PUT HOST:LOCAL-RANK: address at which the worker takes notices
)

// removeTime delays the answer to a worker that asks for an epoch that will never begin. The answer
// makes it fail with a traceback; until then the job should have ended it.
const removeTime = 5 * time.Second

var errLate = errors.New("the epoch that the process was started for has passed")

// Elastic answers one process of an elastic job. It is safe for concurrent use.
type Elastic struct {
	ctx    context.Context // context of the job
	store  Store
	epochs Epochs
	local  func(netip.Addr) bool // reports whether an address is this host's
	wg     sync.WaitGroup

	mu      sync.Mutex
	stay    *stay
	asked   *next         // request for the next epoch, or nil
	worker  *worker       // nil: no address registered for notices
	noted   bool          // whether the user was told that the worker's address is unusable
	changed chan struct{} // closed when worker is replaced
}

// stay is a process's membership in one epoch.
type stay struct {
	number int
	rank   *Rank
	ctx    context.Context // context that ends when the process leaves
	leave  context.CancelFunc
	inside sync.WaitGroup // pending requests of the epoch
	used   bool           // whether the process has begun to connect to the others
	joined bool
	before int  // previous epoch of the process, or 0
	let    bool // whether the process was admitted before its first request
	begun  chan struct{}
	err    error         // error that prevented the epoch, once begun
	silent chan struct{} // closed after the epoch's last notice
	ends   *ends
}

// next is the answer to a process that asks for the next epoch.
type next struct {
	done  chan struct{}
	epoch Epoch
	err   error
}

// NewElastic answers a process that was started for the epoch born, until ctx ends. Local reports
// whether an address is this host's own.
func NewElastic(ctx context.Context, store Store, epochs Epochs, born int, local func(netip.Addr) bool) *Elastic {
	e := &Elastic{
		ctx:     ctx,
		store:   store,
		epochs:  epochs,
		local:   local,
		changed: make(chan struct{}),
	}
	e.stay = e.newStay(born, 0)
	return e
}

func (e *Elastic) newStay(number, before int) *stay {
	s := &stay{
		number: number,
		before: before,
		begun:  make(chan struct{}),
		silent: make(chan struct{}),
		ends:   newEnds(),
	}
	s.ctx, s.leave = context.WithCancel(e.ctx)
	host := NewHost(s.ctx, &epochStore{e.store, s})
	host.apart = true
	s.rank = host.Rank()
	return s
}

// epochStore separates the keys of one epoch from those of others.
type epochStore struct {
	Store
	*stay
}

func (s *epochStore) key(key string) string { return "epoch/" + strconv.Itoa(s.number) + "/" + key }

// Put does not wait for the epoch, because a process proves by it that it runs.
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

// Wait waits for all goroutines. The context must have ended, and Serve must have returned.
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
		return ok() // a worker fails without it
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

// isLast reports whether a scope is the last one that Horovod connects when it initializes.
func isLast(scope string) bool {
	number, is := strings.CutPrefix(scope, "cross_")
	_, isRank := rankOf(number)
	return is && isRank
}

// enter begins a request of the process in its epoch, until the caller ends it. The first one
// proves that the process runs.
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

// begin admits the process to its epoch.
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

// next waits for the next epoch. A process that asks again before it has used the answer gets the
// same one.
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
	a := ok()
	p := n.epoch
	if n.err != nil {
		p = Epoch{
			Rank:      -1,
			Size:      -1,
			LocalRank: -1,
			LocalSize: -1,
			CrossRank: -1,
			CrossSize: -1,
		}
		select {
		case <-time.After(removeTime):
		case <-ctx.Done():
			return failed()
		}
	}
	a.value = fmt.Appendf(nil, "%d,%d,%d,%d,%d,%d", p.Rank, p.Size, p.LocalRank, p.LocalSize, p.CrossRank, p.CrossSize)
	return a
}

// ask makes the process leave its epoch and wait for the next.
func (e *Elastic) ask(n *next) {
	e.mu.Lock()
	s := e.stay
	used := e.stay.used
	left := e.stay.before
	if used {
		left = s.number
		s.leave()
	}
	e.mu.Unlock()
	n.epoch, n.err = e.epochs.Park(e.ctx, left)
	if n.err == nil && n.epoch.Number != s.number {
		s.leave()
		if used || s.let { // the epoch has begun or will begin
			<-s.silent // a late notice would count for the new epoch
		}
		old := s
		s = e.newStay(n.epoch.Number, left)
		s.let = true
		e.begin(s, n.epoch, nil)
		defer e.wg.Go(func() { // no request enters it any more
			old.inside.Wait()
			old.rank.host.Wait()
		})
	}
	e.mu.Lock()
	if n.err == nil { // otherwise there is no next epoch
		e.stay = s
		e.asked = nil
	}
	e.mu.Unlock()
	close(n.done)
}
