package session

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// withOutbox gives a test an outbox and both ends of its pipe, and ends it as a session does whose
// agent hangs: a pending write fails.
func withOutbox(t *testing.T, test func(t *testing.T, o *outbox, r *io.PipeReader, w *io.PipeWriter)) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		o := newOutbox(wire.NewWriter(w), 3)
		test(t, o, r, w)
		o.close()
		r.Close()
		<-o.done
	})
}

func TestOutboxKeepsTheOrder(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *outbox, r *io.PipeReader, w *io.PipeWriter) {
		const frames = 500
		for i := range frames {
			o.send(wire.TypeStdin, uint32(i), fmt.Append(nil, i))
		}
		o.close()
		o.send(wire.TypeStdin, frames, nil) // too late
		in := wire.NewReader(r)
		for i := range frames {
			f, err := in.Next()
			must.That(t, err == nil && f.Stream == uint32(i) && string(f.Payload) == fmt.Sprint(i),
				"frame %d: stream %d, %q, %v", i, f.Stream, f.Payload, err)
		}
		<-o.done
		w.Close()
		f, err := in.Next()
		check.Equal(t, err, io.EOF, "after close:", f)
	})
}

func TestOutboxNeverBlocksItsCallers(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *outbox, r *io.PipeReader, _ *io.PipeWriter) { // without a reader
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100 {
					o.SendMessage(wire.TypeSignal, wire.Signal{Number: 10})
					o.Creditor(1)(creditStep - wire.FrameCost)
				}
			})
		}
		wg.Wait()
	})
}

func TestOutboxEndsWithItsConnection(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *outbox, r *io.PipeReader, _ *io.PipeWriter) {
		r.Close()
		o.SendMessage(wire.TypeStop, wire.Stop{})
		<-o.done
		o.SendMessage(wire.TypeStop, wire.Stop{})
		check.That(t, len(o.queue) == 0, "%d frames wait for nobody", len(o.queue))
	})
}

func TestOutboxGivesCreditInSteps(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *outbox, r *io.PipeReader, w *io.PipeWriter) {
		got := map[uint32][]int{}
		reading := make(chan struct{})
		go func() {
			defer close(reading)
			for in := wire.NewReader(r); ; {
				f, err := in.Next()
				if err != nil {
					return
				}
				n, err := f.Credit()
				check.OK(t, err)
				got[f.Stream] = append(got[f.Stream], n)
			}
		}()
		// Creditors of one stream share its unreturned credit.
		for range 10 {
			o.Creditor(1)(creditStep/4 - wire.FrameCost)
			o.Creditor(2)(creditStep + 1 - wire.FrameCost)
		}
		o.close()
		<-o.done
		w.Close()
		<-reading
		check.That(t, fmt.Sprint(got[1]) == fmt.Sprint([]int{creditStep, creditStep}) && len(got[2]) == 10 &&
			got[2][0] == creditStep+1, "credit came as %v", got)
		check.That(t, o.owed[1] == creditStep/2, "%d bytes are owed, want %d", o.owed[1], creditStep/2)
	})
}

func TestOutboxSkipsBeatsThatPileUp(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *outbox, r *io.PipeReader, w *io.PipeWriter) {
		for i := range 60 {
			o.beat(time.Duration(i))
			synctest.Wait()
		}
		check.That(t, len(o.queue) <= 1, "%d heartbeats wait", len(o.queue))
	})
}

// A message that is too large must not silence an outbox: no heartbeat and no stop
// would reach the agent any more.
func TestOutboxOutlivesAMessageThatIsTooLarge(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *outbox, r *io.PipeReader, w *io.PipeWriter) {
		values := map[int][]byte{}
		for rank := range 256 { // each as large as kv.MaxFence allows
			values[rank] = bytes.Repeat([]byte("x"), 64<<10)
		}
		o.SendMessage(wire.TypeFenced, wire.Fence{Name: "f", Values: values})
		synctest.Wait()
		check.That(t, !o.closed, "the outbox is closed, and nobody knows")
	})
}

func TestOutboxEndsForAHostThatReadsNothing(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *outbox, r *io.PipeReader, w *io.PipeWriter) {
		gaveUp := make(chan struct{})
		o.full = func() {
			r.CloseWithError(io.ErrClosedPipe)
			close(gaveUp)
		}
		for range maxWaits/wire.MaxData + 1 {
			o.send(wire.TypeStdin, 0, make([]byte, wire.MaxData))
		}
		<-gaveUp
		<-o.done
		check.That(t, len(o.queue) == 0, "%d frames are kept", len(o.queue))
	})
}

// TestUnreadAnswersBlockFurtherAnswers checks that a host that does not read answers is not lost.
func TestUnreadAnswersBlockFurtherAnswers(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *outbox, r *io.PipeReader, w *io.PipeWriter) {
		for i := range 100 {
			go o.answer(uint64(i), func() ([]byte, bool) { return make([]byte, kv.MaxValue), true })
		}
		synctest.Wait()
		o.mu.Lock()
		check.That(t, !o.closed && o.waits <= 2*maxAnswers, "closed %v, %d bytes wait", o.closed, o.waits)
		o.mu.Unlock()
	})
}

// The bytes that wait in all streams of a host together have a bound, however many streams the job
// has had: the host waits, is not silent meanwhile, and goes on when some are written. Credit that
// is owed in small parts does not count: it is of written output.
func TestAllStreamsTogetherHaveCredit(t *testing.T) {
	const streams = 3
	const piece = wire.MaxData
	withOutbox(t, func(t *testing.T, o *outbox, _ *io.PipeReader, _ *io.PipeWriter) {
		s := &Session{Out: o}
		for n := range uint32(100 * streams) {
			must.OK(t, s.CountOutput(n, piece/2))
			o.Creditor(n)(piece / 2)
		}
		const most = streams * wire.Window
		came := 0
		go func() {
			for n := uint32(1000); s.CountOutput(n, piece) == nil; n++ {
				came++
			}
		}()
		synctest.Wait()
		fit := most / wire.Cost(piece)
		check.Equal(t, came, fit, "frames without credit")
		time.Sleep(time.Hour)
		check.Equal(t, s.Silence(), 0, "silence while it waits")
		o.Creditor(1000)(piece)
		synctest.Wait()
		check.Equal(t, came, fit+1, "frames when one is written")
		o.close()
		synctest.Wait()
		check.Equal(t, came, fit+1, "frames after the end")
		check.Equal(t, s.Silence(), 0, "silence afterwards")
	})
}

// A host that asks for a key again and again, puts another value each time and reads no answer,
// holds none of the values that it has replaced.
func TestReplacedValuesAreNotKeptForAnswers(t *testing.T) {
	withOutbox(t, func(t *testing.T, o *outbox, r *io.PipeReader, w *io.PipeWriter) {
		s := &Session{Out: o, command: &command{life: t.Context()}}
		store := kv.NewStore()
		var kept []weak.Pointer[byte]
		for i := range 100 {
			value := make([]byte, kv.MaxValue)
			kept = append(kept, weak.Make(&value[0]))
			must.OK(t, store.Put("h", "k", value))
			must.OK(t, s.Get(t.Context(), store, wire.Get{ID: uint64(i), Key: "k"}))
			synctest.Wait()
		}
		runtime.GC()
		kept = slices.DeleteFunc(kept, func(value weak.Pointer[byte]) bool { return value.Value() == nil })
		check.That(t, len(kept)*kv.MaxValue <= maxAnswers, "%d of 100 values are kept", len(kept))
	})
}
