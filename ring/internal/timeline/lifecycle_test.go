package timeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestStartAndStop(t *testing.T) {
	tl := New()
	err := tl.Stop()
	check.That(t, err == nil && !tl.On(), "stop before any start: %v, on: %v", err, tl.On())
	allreduce(tl, "nobody listens")
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		must.OK(t, tl.Start(out, Options{}))
		err := tl.Start(io.Discard, Options{})
		check.That(t, errors.Is(err, ErrRunning) && tl.On(), "second start: %v, on: %v", err, tl.On())
		allreduce(tl, "x")
		err = tl.Stop()
		must.That(t, err == nil && !tl.On(), "stop: %v, on: %v", err, tl.On())
		allreduce(tl, "x")
		all := parse(t, out.Bytes())
		begins, dropped := nest(t, all)
		check.That(t, begins == begun && dropped == 0, "%d begins, %d dropped", begins, dropped)
		check.That(t, all[3].Args["sort_index"] == 1.0 && !strings.Contains(out.String(), "CYCLE_START"),
			"events: %v", all)
	}
}

func TestAppend(t *testing.T) {
	tl := ticking()
	file, err := os.Create(filepath.Join(t.TempDir(), "timeline.json"))
	must.OK(t, err)
	defer file.Close()
	if err := tl.Start(file, Options{Append: true}); err == nil {
		t.Fatal("appended to nothing")
	}
	for round := range 3 {
		must.OK(t, tl.Start(file, Options{Append: round > 0}))
		allreduce(tl, "x")
		allreduce(tl, fmt.Sprintf("y%d", round))
		must.OK(t, tl.Stop())
		text := must.Get(os.ReadFile(file.Name()))(t)
		all := parse(t, text)
		rows := 0
		for _, r := range all {
			if r.Name == "process_name" && r.PID > 0 {
				rows++
			}
		}
		if begins, _ := nest(t, all); begins != 2*begun*(round+1) || rows != round+2 {
			t.Errorf("round %d: %d begins in %d rows", round, begins, rows)
		}
	}
	err = tl.Start(new(bytes.Buffer), Options{Append: true})
	check.That(t, err != nil && !tl.On(), "appended to what cannot seek: %v", err)
}

// One goroutine starts and stops while others record events. Every trace is complete.
func TestStopWhileBusy(t *testing.T) {
	tl := New()
	quit := make(chan struct{})
	var work sync.WaitGroup
	for i := range 4 {
		work.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
					allreduce(tl, fmt.Sprintf("tensor %d", i))
				}
			}
		})
	}
	events := 0
	for range 50 {
		var out bytes.Buffer
		must.OK(t, tl.Start(&out, Options{Buffer: 64, MarkCycles: true}))
		tl.Cycle()
		must.OK(t, tl.Stop())
		all := parse(t, out.Bytes())
		nest(t, all)
		events += len(all) - 3
	}
	close(quit)
	work.Wait()
	check.That(t, events != 0, "no event was written")
}

// broken fails the first write, and fails the test on a second one.
type broken struct{ asked int }

func (w *broken) Write([]byte) (int, error) {
	w.asked++
	return 0, io.ErrShortWrite
}

func TestWriterFails(t *testing.T) {
	tl := New()
	var bad broken
	must.OK(t, tl.Start(&bad, Options{Buffer: 1 << 20}))
	for range 1000 {
		allreduce(tl, "x")
	}
	err := tl.Stop()
	want := fmt.Sprintf("timeline: %d events are lost", 1000*(2+2*begun))
	check.That(t, errors.Is(err, io.ErrShortWrite) && strings.Contains(err.Error(), want),
		"stop: %v, want %s", err, want)
	check.That(t, bad.asked == 1, "the writer was asked %d times", bad.asked)
	check.Error(tl.Start(new(bytes.Buffer), Options{Append: true})).Any(t, "appended to a trace that was not finished")
	var out bytes.Buffer
	must.OK(t, tl.Start(&out, Options{}))
	must.OK(t, tl.Stop())
	nest(t, parse(t, out.Bytes()))
}

func TestBounds(t *testing.T) {
	var out bytes.Buffer
	s := &session{
		rows:  newRows(100),
		buf:   appendHead(nil, time.Unix(0, 0)),
		clock: time.Now,
		w:     &out,
	}
	for i := range 110 {
		s.take(event{kind: ready, tensor: fmt.Sprint(i)})
	}
	for range maxDepth + 5 {
		s.take(event{kind: beginNest, tensor: "1", name: "DEEP"})
	}
	s.finish()
	begins, dropped := nest(t, parse(t, out.Bytes()))
	check.That(t, begins == maxDepth && dropped == 10+5, "%d begins, %d dropped", begins, dropped)
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "layer/1", "a\"\\\n\x00\x1f\x7f", "\xff\xc3", "\u2028é\U0001f600"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		err := json.Unmarshal(appendString(nil, s), &got)
		check.That(t, err == nil && got == string([]rune(s)), "%q becomes %q, %v", s, got, err)
	})
}

func TestAllocatesNothing(t *testing.T) {
	tl := New()
	check.Equal(t, testing.AllocsPerRun(100, func() { allreduce(tl, "x") }), 0, "allocations while off")
	must.OK(t, tl.Start(io.Discard, Options{MarkCycles: true}))
	check.Equal(t, testing.AllocsPerRun(1000, func() { allreduce(tl, "x") }), 0, "allocations while on")
	check.OK(t, tl.Stop())
}
