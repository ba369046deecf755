package resident

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/xtaci/smux"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestReadNonce(t *testing.T) {
	in := strings.NewReader("late\nframes")
	nonce, err := ReadNonce(t.Context(), in)
	check.That(t, nonce == "late" && err == nil, "%q, %v", nonce, err)
	rest, _ := io.ReadAll(in)
	check.That(t, string(rest) == "frames", "%q is left of the input", rest)
	for _, text := range []string{"", "no end", strings.Repeat("x", 1000) + "\n"} {
		nonce, err := ReadNonce(t.Context(), strings.NewReader(text))
		check.That(t, err != nil, "of %q the nonce is %q", text, nonce)
	}
	silent, _ := io.Pipe()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	check.Error(ReadNonce(stopped, silent)).Is(t, context.Canceled, "after a signal")
}

// One agent waits for a job, runs no second one, and ends with its resident agent.
func TestAgentWaitsForAJob(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	near, far := net.Pipe()
	served := make(chan error)
	go func() {
		served <- Serve(t.Context(), "mark", far, far,
			[]string{"/bin/sh", "-c", `echo $$ >>"$0"; read -r nonce && echo "$nonce $$" && cat; exit 7`, started}, nil)
		far.Close()
	}()
	must.Get(io.ReadFull(near, make([]byte, len(wire.Preamble("mark")))))(t)
	c := must.Get(NewClient(near))(t)
	pids := func() []string {
		text, _ := os.ReadFile(started)
		return strings.Fields(string(text))
	}
	spare := func(n int) string { // the nth agent that was started
		must.Until(t, "an agent", func() bool { return len(pids()) >= n })
		return pids()[n-1]
	}
	run := func(nonce string) string {
		var out bytes.Buffer
		var status *StatusError
		err := c.Run(t.Context(), nonce, strings.NewReader("input"), &out, io.Discard)
		must.That(t, errors.As(err, &status) && status.Code == 7, "an agent ended with %v", err)
		return out.String()
	}
	first := spare(1)
	got := run("one")
	check.That(t, got == "one "+first+"\ninput", "the job got %q, and %s waited for it", got, first)
	second := spare(2)
	if got := run("two"); got != "two "+second+"\ninput" || second == first {
		t.Errorf("the second job got %q, and %s waited for it", got, second)
	}
	last, _ := strconv.Atoi(spare(3))
	c.Close()
	check.OK(t, <-served)
	check.Error(syscall.Kill(last, 0)).Any(t, "an agent waits for jobs after the end of its resident agent")
}

func TestKilledSpareCostsNoJob(t *testing.T) {
	s := newStock(t.Context(), []string{"/bin/cat"}, true)
	defer s.close()
	var spare *agent
	must.Until(t, "a spare", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		spare = s.spare
		return spare != nil
	})
	must.OK(t, spare.process.Kill())
	end := spare.wait()
	check.That(t, end.Code == 137, "the spare ended with %+v", end)
	got := must.Get(s.take())(t)
	check.That(t, got.alive(), "a job got an agent that had ended")
	got.dismiss()
}

// stuck is a connection with a host that sends nothing, and takes nothing after its first bytes.
type stuck struct {
	begun  atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (s *stuck) Read([]byte) (int, error) {
	<-s.closed
	return 0, io.EOF
}

func (s *stuck) Write(b []byte) (int, error) {
	if s.begun.Swap(true) {
		<-s.closed
		return 0, io.ErrClosedPipe
	}
	return len(b), nil
}

func (s *stuck) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// A host that takes nothing holds up nobody who is done with it: a stream's end waits 30 s for it.
func TestEndOfAStreamAwaitsNoHost(t *testing.T) {
	c := must.Get(NewClient(&stuck{closed: make(chan struct{})}))(t)
	defer c.Close()
	stream := must.Get(c.Open(t.Context()))(t)
	check.OK(t, stream.Close(), "as of a stream whose end could not be sent in time")
	check.Error(stream.Read(make([]byte, 1))).Is(t, io.ErrClosedPipe)
}

// Open returns when its context ends, whether the host answers or not.
func TestBeginOfAStreamAwaitsNoHost(t *testing.T) {
	conn := &stuck{closed: make(chan struct{})}
	c := must.Get(NewClient(conn))(t)
	defer c.Close()
	must.Get(c.Open(t.Context()))(t)
	for range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Millisecond, func() { cancel(errAbandoned) })
		check.Error(nil, c.Run(ctx, "n", nil, nil, nil)).Is(t, errAbandoned)
	}
	check.That(t, c.Alive(), "the connection is closed")
}

// taking is a client of a host that takes so many frames and no more, and then sends a byte on the
// stream, of which the client tells the host that it has been read.
func taking(t *testing.T, frames int) *Client {
	ours, theirs := net.Pipe()
	c := must.Get(NewClient(ours))(t)
	t.Cleanup(c.Close)
	go func() {
		var head [8]byte
		for range frames {
			_, _ = io.ReadFull(theirs, head[:])
			_, _ = io.CopyN(io.Discard, theirs, int64(binary.LittleEndian.Uint16(head[2:])))
		}
		_, _ = theirs.Write(append([]byte{2, 2, 1, 0}, append(head[4:], 'x')...))
	}()
	return c
}

// A host that takes nothing, not even that something of it was read, does not hold up the end of a
// run.
func TestEndOfARunAwaitsNoHost(t *testing.T) {
	for _, frames := range []int{1, 2} { // the opening of the stream, and its beginning
		c := taking(t, frames)
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx, "n", nil, nil, nil) }()
		time.Sleep(100 * time.Millisecond) // until smux waits
		cancel(errAbandoned)
		select {
		case err := <-ended:
			check.Error(err).Is(t, errAbandoned)
		case <-time.After(20 * time.Second):
			t.Fatalf("the run waits for a host that takes %d frames", frames)
		}
	}
}

// A connection of which a host takes nothing is closed, and ends what is done with its streams,
// soon after one of them was closed.
func TestConnectionThatTakesNothingEnds(t *testing.T) {
	c := taking(t, 1)
	c.endTime = 10 * time.Millisecond
	stream := must.Get(c.Open(t.Context()))(t)
	var work sync.WaitGroup
	work.Go(func() { _, _ = stream.Write(make([]byte, 1<<10)) })
	work.Go(func() { _, _ = stream.Read(make([]byte, 1<<10)) })
	time.Sleep(100 * time.Millisecond) // until smux waits
	stream.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		work.Wait()
	}()
	select {
	case <-ended:
		check.That(t, !c.Alive(), "the connection is open")
	case <-time.After(20 * time.Second):
		t.Fatal("a stream that is closed waits for the host")
	}
}

// An agent whose client goes before it has taken all output leaves nothing behind: the end of a
// stream ends no write that waits for the other end.
func TestAgentWhoseOutputNobodyTakesEnds(t *testing.T) {
	near, far := net.Pipe()
	c := must.Get(NewClient(near))(t)
	defer c.Close()
	mux := must.Get(smux.Server(far, Config()))(t)
	defer mux.Close()
	starts := newStock(t.Context(), []string{"/bin/sh", "-c", "yes & cat >/dev/null; kill $!"}, false)
	defer starts.close()
	ctx, cancel := context.WithCancelCause(t.Context())
	input, _ := io.Pipe() // which goes on
	taken, output := io.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		serve(must.Get(mux.AcceptStream())(t), starts, nil)
	}()
	ran := make(chan error)
	go func() { ran <- c.Run(ctx, "n", input, output, io.Discard) }()
	must.Get(io.ReadFull(taken, make([]byte, 1<<20)))(t)
	time.Sleep(100 * time.Millisecond) // until smux waits for room
	cancel(errAbandoned)
	check.Error(<-ran).Is(t, errAbandoned)
	taken.Close()
	select {
	case <-served:
	case <-time.After(20 * time.Second):
		t.Fatal("an agent that has ended waits for its client to take its output")
	}
}

var errAbandoned = errors.New("abandoned")

// The slots that smux keeps for a stream count until no frame of the stream waits.
func TestSlotsOfAStreamCount(t *testing.T) {
	const frames = 1000
	b := newBound(nil, 1<<20)
	for id := range uint32(3) {
		b.open(id)
		for range frames {
			b.admit(id, 1)
		}
		check.Equal(t, b.bytes, int(id)*(frames*slotCost+costOf(1))+frames*(costOf(1)+slotCost), "all wait")
		b.read(id, frames-1)
		check.Equal(t, b.bytes, int(id+1)*(frames*slotCost+costOf(1)), "one waits")
		b.admit(id, 1)
		b.read(id, 1)
	}
	b.read(0, 1)
	check.Equal(t, b.bytes, 2*(frames*slotCost+costOf(1)), "nothing of a stream waits")
	b.drop(1)
	b.drop(2)
	check.Equal(t, b.bytes, 0, "no stream is left")
}
