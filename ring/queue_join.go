package ring

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/negotiate"
)

// joinedPiece is the bytes of a piece in which tensors of joined ranks are allreduced, which bounds
// the memory of zeros.
const joinedPiece = 4 << 20

// ErrJoined is returned to a rank that submits to a queue, or joins it again, after it has joined.
var ErrJoined = errors.New("ring: queue: this rank has joined: it submits nothing until all ranks have joined")

// JoinedError reports a collective that needs ranks that have joined. All ranks that submitted it
// get it. No data has moved, and the name can be used again.
type JoinedError struct {
	Name   string
	Said   string // request of the others, as in "broadcast of 12 f32 from rank 0"
	Joined int    // number of joined ranks that had not submitted it
	Ranks  []int  // the first 8 of them
}

func (e *JoinedError) Error() string {
	return fmt.Sprintf("ring: tensor %q: %s cannot run, for %s joined the queue; only barriers and allreduces of sum "+
		"and avg run without them",
		e.Name, e.Said, negotiate.RankListOf(e.Joined, e.Ranks))
}

// Joining is a rank's wait for all ranks to join a [Queue].
type Joining struct {
	queue *Queue
	over  bool // this, and what follows, by the queue's lock
	last  int
	err   error
}

// Join declares that this rank has no more data to submit. Until all ranks have joined, it
// contributes zeros to the others' allreduces of [Sum] and [Avg] (Avg divides by the number of all
// ranks) and takes part in their barriers; their other collectives fail with a [*JoinedError].
// Tensors that this rank submitted before still run. New submissions return [ErrJoined] until the
// Joining is done; then ranks may submit and join again.
func (q *Queue) Join() (*Joining, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.open(); err != nil {
		return nil, err
	}
	q.joining = &Joining{queue: q}
	q.rules.Join()
	q.nudge()
	return q.joining, nil
}

// Done reports whether all ranks have joined or the queue has ended. It does not block.
func (j *Joining) Done() bool {
	j.queue.mu.Lock()
	defer j.queue.mu.Unlock()
	return j.over
}

// Wait returns when all ranks have joined, with the rank that joined last, which has seen the most
// data. All ranks get the same rank: of those that join at the same time, the highest. If ctx ends
// first, Wait returns an error that wraps ctx's and names the ranks that have not joined. Wait may
// then be called again.
func (j *Joining) Wait(ctx context.Context) (last int, err error) {
	q := j.queue
	defer q.alarm(ctx)()
	q.mu.Lock()
	defer q.mu.Unlock()
	for !j.over && ctx.Err() == nil {
		q.changed.Wait()
	}
	if j.over {
		return j.last, j.err
	}
	return 0, fmt.Errorf("ring: queue: %s to join: %w", waitsFor(q.rules.NotJoined()), ctx.Err())
}

func waitsFor(ranks []int) string { return "waits for " + negotiate.RankList(ranks) }

// endJoin ends this rank's Joining, if it has one. The lock is held.
func (q *Queue) endJoin(last int, err error) {
	if q.joining == nil {
		return
	}
	q.joining.over = true
	q.joining.last = last
	q.joining.err = err
	q.joining = nil
	q.spare = nil
	q.changed.Broadcast()
}

// runJoined runs an item that ranks have joined on this rank's tensor t, or on zeros if t is nil.
// All ranks use the same pieces.
func (q *Queue) runJoined(item *negotiate.Item, t *tensor) error {
	if item.Kind == KindBarrier {
		return q.move(Collective{Kind: KindBarrier})
	}
	w := Collective{Kind: KindAllReduce, Type: item.Type, Op: item.Op}
	size := w.Type.Size()
	for at, total := 0, int(item.Count); at < total; at += w.Dst.Len {
		n := min(joinedPiece/size, total-at)
		if t != nil {
			w.Dst = part(t.work.Dst, at, n, size)
			w.Src = part(t.work.Src, at, n, size)
		} else {
			w.Dst = Buffer{Ptr: pointer(q.zeros(n * size)), Len: n}
			w.Src = w.Dst
		}
		if err := q.move(w); err != nil {
			return err
		}
	}
	return nil
}

// part returns n elements of b, starting at element at.
func part(b Buffer, at, n, size int) Buffer { return Buffer{Ptr: unsafe.Add(b.Ptr, at*size), Len: n} }

// zeros returns cleared memory for a tensor that this rank has joined.
func (q *Queue) zeros(bytes int) []byte {
	if len(q.spare) < bytes {
		q.spare = bytesOf(make([]uint64, (bytes+7)/8))
	}
	clear(q.spare[:bytes])
	return q.spare[:bytes]
}
