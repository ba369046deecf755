package agent

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// sink is the launcher's end of a pump: it records frames, and returns no credit.
type sink struct {
	pipe *io.PipeReader
	mu   sync.Mutex
	data bytes.Buffer
	cost int // of the frames
	err  error
	done chan struct{}
	// pauses are the bytes that had come at each reported pause.
	pauses []string
}

func (s *sink) read(frames *wire.Reader) {
	defer close(s.done)
	for {
		f, err := frames.Next()
		s.mu.Lock()
		if err != nil {
			s.err = err
			s.mu.Unlock()
			return
		}
		if f.Type == wire.TypeOutput && f.Stream == 5 {
			s.data.Write(f.Payload)
			s.cost += wire.Cost(len(f.Payload))
			if len(f.Payload) == 0 {
				s.pauses = append(s.pauses, s.data.String())
			}
		}
		s.mu.Unlock()
	}
}

// spent reports whether credit covers no further byte.
func (s *sink) spent(credit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return credit-s.cost <= wire.FrameCost
}

// startPump pumps from a pipe to a sink. The pump has ended when ended is closed.
func startPump(t *testing.T, buffer int) (p *pump, into *os.File, s *sink, ended chan struct{}) {
	t.Helper()
	file, into := must.GetTwo(os.Pipe())(t)
	r, w := io.Pipe()
	p = &pump{
		file:   file,
		stream: 5,
		lines:  true,
		credit: wire.NewCredit(),
		out:    wire.NewWriter(w),
	}
	s = &sink{pipe: r, done: make(chan struct{})}
	ended = make(chan struct{})
	go s.read(wire.NewReader(r))
	go func() {
		defer close(ended)
		p.run(make([]byte, buffer))
		w.Close()
	}()
	t.Cleanup(func() {
		into.Close()
		p.credit.Close()
		wait(t, ended, "the pump's end")
		<-s.done
	})
	return p, into, s, ended
}

func (s *sink) paused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pauses)
}

// TestPumpReportsPauses checks that a pause is reported once, and only within a line.
func TestPumpReportsPauses(t *testing.T) {
	must.HaveTime(t)
	p, into, s, ended := startPump(t, pumpBuffer)
	for i, text := range []string{"line\nname? ", "bar\r", "\n", "last"} {
		must.Get(into.WriteString(text))(t)
		switch text {
		case "\n":
			time.Sleep(2 * pauseTime)
		case "last":
			p.rankEnded()
			into.Close()
			wait(t, ended, "the pump's end")
		default:
			must.Until(t, "a word about the pause", func() bool { return s.paused() > i })
			time.Sleep(2 * pauseTime)
		}
	}
	<-s.done
	check.Equal(t, strings.Join(s.pauses, "|"), "line\nname? |line\nname? bar\r|line\nname? bar\r\nlast",
		"pauses after")
}

func wait(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(timeout):
		t.Fatalf("waited %v for %s", timeout, what)
	}
}

func TestPumpCarriesEveryByte(t *testing.T) {
	for _, buffer := range []int{1, 7, 4096, pumpBuffer} {
		p, into, s, ended := startPump(t, buffer)
		rnd := rand.New(rand.NewPCG(1, uint64(buffer)))
		data := make([]byte, min(wire.Window/2, 300*buffer))
		for i := range data {
			data[i] = byte(rnd.Uint32())
		}
		for rest := data; len(rest) > 0; {
			n := must.Get(into.Write(rest[:1+rnd.IntN(min(len(rest), 9000))]))(t)
			rest = rest[n:]
		}
		into.Close()
		wait(t, ended, "the pump's end")
		<-s.done
		check.That(t, bytes.Equal(s.data.Bytes(), data) && errors.Is(s.err, io.EOF),
			"buffer %d: %d bytes of %d, %v", buffer, s.data.Len(), len(data), s.err)
		check.OK(t, p.credit.Add(s.cost), "buffer", buffer, "the pump had more credit left than its frames cost")
		check.That(t, p.credit.Add(1) != nil, "buffer %d: the pump took more credit than its frames cost", buffer)
	}
}

// TestPumpDeliversWhatIsInThePipe lets the rank end while credit is out: bytes that
// are in the pipe at the cut must arrive all the same.
func TestPumpDeliversWhatIsInThePipe(t *testing.T) {
	p, into, s, ended := startPump(t, pumpBuffer)
	const total = wire.Window + 50_000 // so that 50,000 bytes wait in the pipe
	must.Get(into.Write(bytes.Repeat([]byte("x"), total)))(t)
	must.Until(t, "a whole window", func() bool { return s.spent(wire.Window) })
	p.mu.Lock() // as after rankEnded and drainTime
	p.endBy = time.Now().Add(-time.Second)
	p.mu.Unlock()
	must.OK(t, p.credit.Add(wire.Window))
	wait(t, ended, "the cut")
	<-s.done
	check.That(t, s.data.Len() == total, "%d bytes of %d", s.data.Len(), total)
}

// A rank that prints its last words must not die of it, nor wait.
func TestPumpEndsWithItsLauncher(t *testing.T) {
	_, into, s, ended := startPump(t, pumpBuffer)
	s.pipe.Close()
	for range 10 {
		_, err := into.Write(make([]byte, 60<<10))
		must.OK(t, err, "the pipe is not read any more")
	}
	into.Close()
	wait(t, ended, "the pump's end")
}

// TestPumpCutsAPipeThatNeverFallsSilent has a child of the rank that writes on, while credit comes
// back so slowly that the pipe is always full.
func TestPumpCutsAPipeThatNeverFallsSilent(t *testing.T) {
	slow(t)
	p, into, s, ended := startPump(t, pumpBuffer)
	go func() {
		for {
			if _, err := into.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}()
	p.rankEnded()
	must.Until(t, "a whole window", func() bool { return s.spent(wire.Window) })
	had := wire.Window
	for stop := time.Now().Add(drainTime + 5*time.Second); time.Now().Before(stop); {
		select {
		case <-ended:
			return
		case <-time.After(5 * time.Millisecond):
		}
		if !s.spent(had) { // the pipe may be cut with credit left
			continue
		}
		must.OK(t, p.credit.Add(1<<16))
		had += 1 << 16
	}
	t.Errorf("still reading %v after the rank's end", drainTime+5*time.Second)
}
