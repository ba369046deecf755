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

	"github.com/gorun/gorun/internal/wire"
)

// sink is the launcher's end of a pump: it keeps what came, and gives no credit.
type sink struct {
	mu   sync.Mutex
	data bytes.Buffer
	err  error
	done chan struct{}
	// pauses are all bytes that had come when the pump said that there are no more for now.
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
			if len(f.Payload) == 0 {
				s.pauses = append(s.pauses, s.data.String())
			}
		}
		s.mu.Unlock()
	}
}

func (s *sink) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data.Len()
}

// startPump pumps from a pipe to a sink. The pump has ended when ended is closed.
func startPump(t *testing.T, buffer int) (p *pump, into *os.File, s *sink, ended chan struct{}) {
	t.Helper()
	file, into, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	p = &pump{file: file, stream: 5, credit: wire.NewCredit(), out: wire.NewWriter(w)}
	s = &sink{done: make(chan struct{})}
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

// A pause is told once, and only in the middle of a line.
func TestPumpTellsOfPauses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	p, into, s, ended := startPump(t, pumpBuffer)
	for i, text := range []string{"line\nname? ", "bar\r", "\n", "last"} {
		if _, err := into.WriteString(text); err != nil {
			t.Fatal(err)
		}
		switch text {
		case "\n":
			time.Sleep(2 * pauseTime)
		case "last":
			p.rankEnded()
			into.Close()
			wait(t, ended, "the pump's end")
		default:
			until(t, "a word about the pause", func() bool { return s.paused() > i })
			time.Sleep(2 * pauseTime)
		}
	}
	<-s.done
	if got := strings.Join(s.pauses, "|"); got != "line\nname? |line\nname? bar\r|line\nname? bar\r\nlast" {
		t.Errorf("pauses after %q", got)
	}
}

// While bytes are on their way, credit is short or nobody prints, nothing is a pause.
func TestPumpTakesNoLackOfCreditForAPause(t *testing.T) {
	p, into, s, ended := startPump(t, pumpBuffer)
	const total = wire.Window + 1000
	if _, err := into.Write(append(bytes.Repeat([]byte("x"), total-1), '\n')); err != nil {
		t.Fatal(err)
	}
	until(t, "a whole window", func() bool { return s.len() == wire.Window })
	time.Sleep(2 * pauseTime)
	if err := p.credit.Add(wire.Window); err != nil {
		t.Fatal(err)
	}
	into.Close()
	wait(t, ended, "the pump's end")
	if <-s.done; s.data.Len() != total || len(s.pauses) != 0 {
		t.Errorf("%d bytes, pauses: %d", s.data.Len(), len(s.pauses))
	}
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
		data := make([]byte, min(wire.Window-1, 300*buffer))
		for i := range data {
			data[i] = byte(rnd.Uint32())
		}
		for rest := data; len(rest) > 0; {
			n, err := into.Write(rest[:1+rnd.IntN(min(len(rest), 9000))])
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		into.Close()
		wait(t, ended, "the pump's end")
		<-s.done
		if !bytes.Equal(s.data.Bytes(), data) || !errors.Is(s.err, io.EOF) {
			t.Errorf("buffer %d: %d bytes of %d, %v", buffer, s.data.Len(), len(data), s.err)
		}
		if left := drain(p.credit); left != wire.Window-len(data) {
			t.Errorf("buffer %d: %d bytes of credit are left, want %d", buffer, left, wire.Window-len(data))
		}
	}
}

// drain takes all credit that is there.
func drain(c *wire.Credit) int {
	_ = c.Add(0)
	n := 0
	for took := make(chan int); ; {
		go func() { took <- c.Take(wire.Window) }()
		select {
		case got := <-took:
			if n += got; got == 0 {
				return n
			}
		case <-time.After(20 * time.Millisecond):
			c.Close()
			<-took
			return n
		}
	}
}

func TestPumpReadsOnlyWhatItHasCreditFor(t *testing.T) {
	p, into, s, ended := startPump(t, pumpBuffer)
	const total = wire.Window + 100_000
	written := make(chan error, 1)
	go func() {
		_, err := into.Write(bytes.Repeat([]byte("x"), total))
		into.Close()
		written <- err
	}()
	until(t, "a whole window", func() bool { return s.len() == wire.Window })
	select {
	case err := <-written:
		t.Fatalf("everything was read without credit: %v", err)
	case <-time.After(50 * time.Millisecond): // it would have gone on by now
	}
	if err := p.credit.Add(10); err != nil {
		t.Fatal(err)
	}
	until(t, "ten bytes more", func() bool { return s.len() == wire.Window+10 })
	if err := p.credit.Add(wire.Window); err != nil {
		t.Fatal(err)
	}
	wait(t, ended, "the pump's end")
	<-s.done
	if err := <-written; err != nil || s.data.Len() != total {
		t.Errorf("%d bytes of %d, %v", s.data.Len(), total, err)
	}
}

func TestPumpCutsAPipeThatIsHeldOpen(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	p, into, s, ended := startPump(t, pumpBuffer)
	began := time.Now()
	p.rankEnded()
	if _, err := into.Write([]byte("late, but in time")); err != nil {
		t.Fatal(err)
	}
	wait(t, ended, "the cut")
	if took := time.Since(began); took < drainTime || took > drainTime+timeout/2 {
		t.Errorf("cut after %v, want %v", took, drainTime)
	}
	if <-s.done; s.data.String() != "late, but in time" {
		t.Errorf("%q came", s.data.String())
	}
	if _, err := into.Write([]byte("x")); err == nil {
		t.Error("the pipe is still open for reading")
	}
}

// TestPumpDeliversWhatIsInThePipe lets the rank end while credit is out: bytes that
// are in the pipe at the cut must arrive all the same.
func TestPumpDeliversWhatIsInThePipe(t *testing.T) {
	p, into, s, ended := startPump(t, pumpBuffer)
	const total = wire.Window + 50_000 // so that 50,000 bytes wait in the pipe
	if _, err := into.Write(bytes.Repeat([]byte("x"), total)); err != nil {
		t.Fatal(err)
	}
	until(t, "a whole window", func() bool { return s.len() == wire.Window })
	p.mu.Lock() // as after rankEnded and drainTime
	p.endBy = time.Now().Add(-time.Second)
	p.mu.Unlock()
	if err := p.credit.Add(wire.Window); err != nil {
		t.Fatal(err)
	}
	wait(t, ended, "the cut")
	<-s.done
	if s.data.Len() != total {
		t.Errorf("%d bytes of %d", s.data.Len(), total)
	}
}

func TestPumpEndsWithItsLauncher(t *testing.T) {
	file, into, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	r, w := io.Pipe()
	r.Close()
	p := &pump{file: file, stream: 5, credit: wire.NewCredit(), out: wire.NewWriter(w)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.run(make([]byte, pumpBuffer))
	}()
	if _, err := into.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	// A rank that prints its last words must not die of it, nor wait.
	for range 10 {
		if _, err := into.Write(make([]byte, 60<<10)); err != nil {
			t.Fatalf("the pipe is not read any more: %v", err)
		}
	}
	into.Close()
	wait(t, ended, "the pump's end")
}
