package agent

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// input is a host's standard input for some ranks, seen from both of its ends.
type input struct {
	*stdin
	from  []*os.File // what the ranks read, by rank
	ended chan struct{}

	mu     sync.Mutex
	credit int
	over   bool // nobody takes more
}

// startStdin feeds a pipe for each of n ranks; the launcher's end of its credit is read away.
func startStdin(t *testing.T, n int) *input {
	t.Helper()
	r, w := io.Pipe()
	in := &input{stdin: newStdin(wire.NewWriter(w)), ended: make(chan struct{})}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for frames := wire.NewReader(r); ; {
			f, err := frames.Next()
			if err != nil {
				return
			}
			n, err := f.Credit()
			check.OK(t, err)
			in.mu.Lock()
			in.credit += n
			in.over = in.over || n == 0
			in.mu.Unlock()
		}
	}()
	var ranks sync.WaitGroup
	for rank := range n {
		from, file := must.GetTwo(os.Pipe())(t)
		in.from = append(in.from, from)
		ranks.Go(in.attach(rank, file))
	}
	go func() {
		defer close(in.ended)
		ranks.Wait()
		w.Close()
		<-read
	}()
	t.Cleanup(func() {
		for rank, from := range in.from {
			in.close(rank)
			from.Close()
		}
		wait(t, in.ended, "the end of stdin")
	})
	return in
}

func (in *input) returned() (credit int, over bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.credit, in.over
}

func (in *input) mustPush(t *testing.T, data []byte) {
	t.Helper()
	must.OK(t, in.push(data))
}

// pushAll pushes data a piece at a time, against its credit, and returns what that costs.
func (in *input) pushAll(t *testing.T, data []byte) (cost int) {
	t.Helper()
	buf := make([]byte, 1000)
	for sent := 0; sent < len(data); {
		n := copy(buf, data[sent:]) // push must keep a copy
		cost += wire.Cost(n)
		must.Until(t, "credit", func() bool { back, _ := in.returned(); return cost-back <= wire.Window })
		in.mustPush(t, buf[:n])
		sent += n
	}
	return cost
}

func pattern(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i / 7)
	}
	return data
}

func TestStdinCarriesEveryByteToEveryRank(t *testing.T) {
	for _, n := range []int{1, 3} {
		in := startStdin(t, n)
		sent := pattern(2*wire.Window + 77)
		got := make([][]byte, n)
		var readers sync.WaitGroup
		for rank, from := range in.from {
			readers.Go(func() { got[rank], _ = io.ReadAll(from) })
		}
		cost := in.pushAll(t, sent)
		for _, last := range []string{"", "after the end"} {
			in.mustPush(t, []byte(last))
		}
		wait(t, in.ended, "the end of stdin")
		readers.Wait()
		for rank, data := range got {
			check.That(t, bytes.Equal(data, sent),
				"rank %d of %d: %d bytes of %d, or not the same", rank, n, len(data), len(sent))
		}
		if credit, over := in.returned(); credit != cost || over {
			t.Errorf("%d ranks: credit of %d came back, want %d; over: %v", n, credit, cost, over)
		}
	}
}

// The slowest rank holds the launcher back, and no more than a window waits for it.
func TestStdinIsBoundedByItsCredit(t *testing.T) {
	in := startStdin(t, 2) // the second does not read, and a pipe takes 64 KiB
	go func() { _, _ = io.Copy(io.Discard, in.from[0]) }()
	var err error
	pushed := 0
	for err == nil && pushed <= 2*wire.Window {
		err = in.push(make([]byte, 1<<15))
		pushed += 1 << 15
	}
	var format *wire.FormatError
	check.That(t, errors.As(err, &format) && pushed >= wire.Window, "after %d bytes: %v", pushed, err)
}

// Pieces of one byte cost more than a byte: what waits for a rank is bounded in their number, too.
func TestStdinBoundsTinyPieces(t *testing.T) {
	in := startStdin(t, 1)
	for range 1 << 17 { // the pipe takes 64 KiB of them
		if err := in.push([]byte("x")); err != nil {
			return
		}
	}
	t.Errorf("%d bytes came in a frame each, and are kept", 1<<17)
}

// What is on its way to a rank that reads no more goes nowhere.
func TestStdinThatNobodyTakesIsNotAskedFor(t *testing.T) {
	for name, leave := range map[string]func(in *input){
		"the rank closed it": func(in *input) { in.from[0].Close() },
		"the rank ended":     func(in *input) { in.close(0) },
	} {
		in := startStdin(t, 1)
		for range 7 {
			in.mustPush(t, make([]byte, wire.Window/8))
		}
		time.Sleep(20 * time.Millisecond) // either way it must end; usually the writer is stuck by now
		leave(in)
		wait(t, in.ended, "the end of stdin")
		_, over := in.returned()
		check.That(t, over, "%s: the launcher was not told that nobody reads", name)
		for range 10 {
			in.mustPush(t, make([]byte, wire.Window/8))
		}
	}
}

// A rank that has ended, and one that has closed its input, do not hold up a third.
func TestStdinGoesOnWithoutRanksThatLeft(t *testing.T) {
	in := startStdin(t, 3)
	sent := pattern(3 * wire.Window)
	got := make(chan []byte)
	go func() {
		data, _ := io.ReadAll(in.from[2])
		got <- data
	}()
	half := len(sent) / 2
	in.from[1].Close()
	go func() {
		_, _ = io.CopyN(io.Discard, in.from[0], int64(half/4))
		in.close(0)
	}()
	cost := in.pushAll(t, sent)
	in.mustPush(t, nil)
	data := <-got
	check.That(t, bytes.Equal(data, sent), "%d bytes of %d, or not the same", len(data), len(sent))
	wait(t, in.ended, "the end of stdin")
	credit, over := in.returned()
	check.That(t, credit == cost && !over, "credit of %d came back, want %d; over: %v", credit, cost, over)
}
