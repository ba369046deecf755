package services

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
)

// relay carries requests of ranks to the launcher and answers back. It is the rank server's
// kv.Backend.
type relay struct {
	out   *wire.Writer
	ended chan struct{}

	mu      sync.Mutex
	epoch   int // current epoch; 0 before an elastic job begins, and in other jobs
	rank    int // rank of this host in the epoch, if epoch is not 0
	size    int // ranks in the job
	gather  *kv.Fences
	share   *kv.Share
	fences  map[string]*fenceWait
	gets    map[uint64]chan wire.Value // unanswered requests
	lastGet uint64
	aborted chan struct{}
	info    []byte
}

// fenceWait is one open fence of this host.
type fenceWait struct {
	done   chan struct{}
	values [][]byte
	came   map[int]bool // the ranks that have posted, also after gather has the name complete
}

func newRelay(out *wire.Writer, localSize, size int) *relay {
	return &relay{
		out:     out,
		size:    size,
		ended:   make(chan struct{}),
		gather:  kv.NewFences(localSize),
		share:   kv.NewShare(1),
		fences:  map[string]*fenceWait{},
		gets:    map[uint64]chan wire.Value{},
		aborted: make(chan struct{}),
	}
}

// begin ends the requests of the last epoch and starts another.
func (r *relay) begin(epoch, rank, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.info == nil {
		close(r.aborted)
	}
	r.epoch = epoch
	r.rank = rank
	r.size = size
	r.gather = kv.NewFences(1)
	r.share.Begin(epoch)
	r.fences = map[string]*fenceWait{}
	r.aborted = make(chan struct{})
	r.info = nil
}

// Fence waits for all ranks of the job; the last one of this host sends the
// values of all of them.
func (r *relay) Fence(ctx context.Context, name string, rank int, value []byte) ([][]byte, error) {
	return r.FenceAll(ctx, name, map[int][]byte{rank: value})
}

// FenceAll is Fence for several ranks of this host.
func (r *relay) FenceAll(ctx context.Context, name string, values map[int][]byte) ([][]byte, error) {
	r.mu.Lock()
	wait := r.fences[name]
	for rank := range values {
		// the request is of an epoch that is over, where this host's rank had another number
		if r.epoch > 0 && rank != r.rank {
			r.mu.Unlock()
			return nil, kv.ErrAborted
		}
		// it repeats an abandoned request: the launcher fails a host that posts twice
		if wait != nil && wait.came[rank] {
			r.mu.Unlock()
			return nil, &kv.DuplicateError{Name: name, Member: rank}
		}
	}
	if err := r.share.Post(name, values); err != nil {
		r.mu.Unlock()
		return nil, err
	}
	local, err := r.gather.Add(name, values)
	if err != nil {
		if wait == nil {
			r.share.End(name)
		}
		r.mu.Unlock()
		return nil, err
	}
	if wait == nil {
		wait = &fenceWait{done: make(chan struct{}), came: map[int]bool{}}
		r.fences[name] = wait
	}
	for rank := range values {
		wait.came[rank] = true
	}
	epoch := r.epoch
	aborted := r.aborted
	r.mu.Unlock()
	r.checkFences()
	if local != nil {
		if err := r.out.SendMessage(wire.TypeFence, wire.Fence{Epoch: epoch, Name: name, Values: local}); err != nil {
			return nil, err
		}
	}
	select {
	case <-wait.done:
		return wait.values, nil
	case <-aborted:
		return nil, kv.ErrAborted
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.ended:
		return nil, errEnded
	}
}

// rankEnded notes that a rank posts to no fence any more.
func (r *relay) rankEnded(rank int) {
	r.mu.Lock()
	r.gather.End(rank)
	r.mu.Unlock()
	r.checkFences()
}

// checkFences reports a rank that has ended as lost when others wait for it.
func (r *relay) checkFences() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name, rank, waiter, stuck := r.gather.Stuck(); stuck {
		r.send(wire.TypeLost, wire.EndedBefore(name, r.epoch, rank, waiter)) // must not block the loop
	}
}

// fenced answers an open fence with the values of all ranks.
func (r *relay) fenced(f wire.Fence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.Epoch != r.epoch {
		return
	}
	values := make([][]byte, r.size)
	for rank, value := range f.Values {
		if rank >= 0 && rank < r.size {
			values[rank] = value
		}
	}
	if wait := r.fences[f.Name]; wait != nil {
		delete(r.fences, f.Name)
		r.share.End(f.Name)
		wait.values = values
		close(wait.done)
	}
}

func (r *relay) Put(key string, value []byte) error {
	r.mu.Lock()
	// The request is of an epoch that is over, or has not begun: the launcher fails a host that
	// puts a key of another's rank.
	if epoch, rank, is := kv.RankOf(key); is && (epoch != r.epoch || r.epoch > 0 && rank != r.rank) {
		r.mu.Unlock()
		return kv.ErrAborted
	}
	err := r.share.Put(key, value)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	return r.out.SendMessage(wire.TypePut, wire.Put{Key: key, Value: value})
}

// getTime is how long the launcher waits for a key at a time: it does not learn that a rank has
// abandoned the request.
const getTime = 30 * time.Second

// maxGets bounds the requests that the launcher has not answered, abandoned ones too: it fails a
// host that has 8192.
const maxGets = 7 << 10

var errGets = errors.New("too many requests of this host wait for keys: abandoned ones count for up to 30 s")

func (r *relay) Get(ctx context.Context, key string, wait time.Duration) (value []byte, found bool, err error) {
	for ; !found && err == nil && wait > getTime; wait -= getTime {
		value, found, err = r.getOnce(ctx, key, getTime)
	}
	if found || err != nil {
		return value, found, err
	}
	return r.getOnce(ctx, key, wait)
}

func (r *relay) getOnce(ctx context.Context, key string, wait time.Duration) ([]byte, bool, error) {
	// Each byte of a key that is no UTF-8 has three in a message.
	if err := kv.CheckSize(string([]rune(key)), nil); err != nil {
		return nil, false, err
	}
	answer := make(chan wire.Value, 1)
	r.mu.Lock()
	if len(r.gets) >= maxGets {
		r.mu.Unlock()
		return nil, false, errGets
	}
	r.lastGet++
	id := r.lastGet
	r.gets[id] = answer
	aborted := r.aborted
	r.mu.Unlock()
	if err := r.out.SendMessage(wire.TypeGet, wire.Get{ID: id, Key: key, Wait: wait}); err != nil {
		r.mu.Lock()
		delete(r.gets, id)
		r.mu.Unlock()
		return nil, false, err
	}
	select {
	case v := <-answer:
		if v.Found {
			r.mu.Lock()
			r.share.Got(key)
			r.mu.Unlock()
		}
		return v.Value, v.Found, nil
	case <-aborted:
		return nil, false, kv.ErrAborted
	case <-ctx.Done():
		return nil, false, ctx.Err()
	case <-r.ended:
		return nil, false, errEnded
	}
}

func (r *relay) value(v wire.Value) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer := r.gets[v.ID]; answer != nil {
		answer <- v // buffered, one answer per request
		delete(r.gets, v.ID)
	}
}

// Lost reports to the launcher, which decides who is at fault and aborts the job.
func (r *relay) Lost(by, rank int, cause string) {
	r.report(wire.Lost{By: by, Rank: rank, Cause: cause})
}

// Left reports to the launcher, which does not abort the job.
func (r *relay) Left(by, rank int, cause string) {
	r.report(wire.Lost{
		By:    by,
		Rank:  rank,
		Cause: cause,
		Left:  true,
	})
}

// AbortJob reports to the launcher, which ends the job.
func (r *relay) AbortJob(by, rank int, cause string) {
	r.report(wire.Lost{
		By:    by,
		Rank:  rank,
		Cause: cause,
		Abort: true,
	})
}

func (r *relay) report(l wire.Lost) {
	r.mu.Lock()
	l.Epoch = r.epoch
	r.mu.Unlock()
	_ = r.out.SendMessage(wire.TypeLost, l) // the loop notices a lost launcher
}

// send sends a message without waiting for it.
func (r *relay) send(t wire.Type, message any) {
	go func() { _ = r.out.SendMessage(t, message) }() // the loop notices a lost launcher
}

// Note sends a rank's line to the user.
func (r *relay) Note(by int, note kv.Note) {
	// The loop notices a lost launcher.
	_ = r.out.SendMessage(wire.TypeNote, wire.Note{By: by, Text: note.Text, Stall: note.Stall})
}

func (r *relay) Aborted() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.aborted
}

func (r *relay) AbortInfo() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.info == nil { // begin ended the request
		over, _ := json.Marshal(wire.Abort{Rank: -1, Cause: "the epoch is over: another one has begun"})
		return over
	}
	return r.info
}

// abort tells every rank of this host. Only the first cause counts.
func (r *relay) abort(a wire.Abort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.info != nil {
		return
	}
	r.info, _ = json.Marshal(a) // a struct of strings and numbers always encodes
	close(r.aborted)
}

// end ends the requests of waiting ranks.
func (r *relay) end() { close(r.ended) }
