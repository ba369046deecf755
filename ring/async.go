package ring

import (
	"context"
	"sync"
	"sync/atomic"
)

// Handle is a started call. It is a small value. The zero Handle is a finished call without error.
type Handle struct {
	task *task
	turn uint64
}

// task is a started call. It is reused after it was waited for; turn counts the uses.
type task struct {
	backlog *backlog
	work    Collective
	call    Call
	turn    uint64
	over    bool
	err     error
}

// Start begins the call that w describes and returns at once. A goroutine of the Comm makes started
// calls in their order; a later [Comm.Do] comes after them. The caller must not touch the memory,
// Counts and Sends of w until the call has finished. An error means that w is invalid,
// and that nothing was started.
//
// Wait for each Handle once, which frees its resources.
func (c *Comm) Start(w Collective) (Handle, error) {
	var call Call
	if err := c.check(&w, &call); err != nil {
		return Handle{}, err
	}
	return c.later.add(w, call), nil
}

// StartHere is [Comm.Start] for callers that wait at once: if no other call goes on, and all other
// ranks come to this one within some microseconds, or a message can be handed over by then, it
// makes the call in the caller's goroutine, which saves two switches of threads. The error may then
// be the call's own. Ranks may mix Start, StartHere and [Comm.Do].
func (c *Comm) StartHere(w Collective) (Handle, error) {
	var call Call
	if err := c.check(&w, &call); err != nil {
		return Handle{}, err
	}
	if made, err := c.here(&w, &call); made {
		return Handle{}, err
	}
	return c.later.add(w, call), nil
}

// here makes a collective if it is the next call of all ranks, or a message if it need not wait,
// and reports whether it did.
func (c *Comm) here(w *Collective, call *Call) (made bool, err error) {
	if c.later.waiting.Load() != 0 || !c.calls.TryLock() {
		return false, nil
	}
	defer c.calls.Unlock()
	if c.life.Err() != nil || c.calls.fabric == nil {
		return false, nil
	}
	call.Seq = c.calls.seq + 1
	switch {
	case call.Kind == KindMessage && !c.calls.fabric.Prompt(w), call.Kind != KindMessage &&
		!c.calls.fabric.Assemble(call):
		return false, nil
	}
	return true, c.next(context.Background(), noError, w, call)
}

// Done reports whether the call has finished. It does not block.
func (h Handle) Done() bool {
	if h.task == nil {
		return true
	}
	b := h.task.backlog
	b.mu.Lock()
	defer b.mu.Unlock()
	return h.task.turn != h.turn || h.task.over
}

// Wait returns the call's error when it has finished. If ctx ends first, Wait returns ctx's error,
// the call goes on, and Wait may be called again. After the call's own outcome was returned, Wait
// returns only the error that broke the Comm, or nil.
func (h Handle) Wait(ctx context.Context) error {
	if h.task == nil {
		return nil
	}
	return h.task.backlog.wait(ctx, h)
}

// backlog holds the started calls and the goroutine that makes them.
type backlog struct {
	comm *Comm

	waiting atomic.Int32 // len(queue), for those that do not hold mu
	mu      sync.Mutex
	changed sync.Cond // a task was added or is over, or the backlog is closed
	queue   []*task   // the first one is being made
	free    []*task
	running bool // the goroutine is there
	closed  bool
	ended   sync.WaitGroup
}

func (b *backlog) init(c *Comm) {
	b.comm = c
	b.changed.L = &b.mu
}

func (b *backlog) add(w Collective, call Call) Handle {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.unused()
	t.work = w
	t.call = call
	t.over = false
	t.err = nil
	if b.closed {
		t.over = true
		t.err = ErrClosed
		return Handle{t, t.turn}
	}
	b.queue = append(b.queue, t)
	b.waiting.Store(int32(len(b.queue)))
	if !b.running {
		b.running = true
		b.ended.Go(b.make)
	}
	b.changed.Broadcast()
	return Handle{t, t.turn}
}

func (b *backlog) unused() *task {
	if n := len(b.free); n > 0 {
		t := b.free[n-1]
		b.free = b.free[:n-1]
		return t
	}
	return &task{backlog: b}
}

// make makes the calls one after the other.
func (b *backlog) make() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		for len(b.queue) == 0 && !b.closed {
			b.changed.Wait()
		}
		if len(b.queue) == 0 {
			return
		}
		t := b.queue[0]
		b.mu.Unlock()
		err := b.comm.run(context.Background(), &t.work, &t.call)
		b.mu.Lock()
		t.work = Collective{} // the caller's memory is not ours to keep
		t.over = true
		t.err = err
		b.queue = append(b.queue[:0], b.queue[1:]...)
		b.waiting.Store(int32(len(b.queue)))
		b.changed.Broadcast()
	}
}

// drain waits until all calls started before it have finished.
func (b *backlog) drain() {
	if b.waiting.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queue) > 0 {
		b.changed.Wait()
	}
}

func (b *backlog) wait(ctx context.Context, h Handle) error {
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.changed.Broadcast()
		})
	}
	defer stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	t := h.task
	for t.turn == h.turn && !t.over && ctx.Err() == nil {
		b.changed.Wait()
	}
	switch {
	case t.turn != h.turn:
		return b.comm.failure()
	case !t.over:
		return ctx.Err()
	}
	t.turn++
	b.free = append(b.free, t)
	return t.err
}

// close waits for the goroutine. The calls left fail at once, since the Comm has ended.
func (b *backlog) close() {
	b.mu.Lock()
	b.closed = true
	b.changed.Broadcast()
	b.mu.Unlock()
	b.ended.Wait()
}
