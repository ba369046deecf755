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
	if err := tl.Stop(); err != nil || tl.On() {
		t.Errorf("stop before any start: %v, on: %v", err, tl.On())
	}
	allreduce(tl, "nobody listens")
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		must.OK(t, tl.Start(out, Options{}))
		if err := tl.Start(io.Discard, Options{}); !errors.Is(err, ErrRunning) || !tl.On() {
			t.Errorf("second start: %v, on: %v", err, tl.On())
		}
		allreduce(tl, "x")
		if err := tl.Stop(); err != nil || tl.On() {
			t.Fatalf("stop: %v, on: %v", err, tl.On())
		}
		allreduce(tl, "x")
		all := parse(t, out.Bytes())
		if begins, dropped := nest(t, all); begins != begun || dropped != 0 {
			t.Errorf("%d begins, %d dropped", begins, dropped)
		}
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
		text, err := os.ReadFile(file.Name())
		must.OK(t, err)
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
	if err := tl.Start(new(bytes.Buffer), Options{Append: true}); err == nil || tl.On() {
		t.Errorf("appended to what cannot seek: %v", err)
	}
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
	if want := fmt.Sprintf("timeline: %d events are lost", 1000*(2+2*begun)); !errors.Is(err, io.ErrShortWrite) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("stop: %v, want %s", err, want)
	}
	check.That(t, bad.asked == 1, "the writer was asked %d times", bad.asked)
	if err := tl.Start(new(bytes.Buffer), Options{Append: true}); err == nil {
		t.Error("appended to a trace that was not finished")
	}
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
	if begins, dropped := nest(t, parse(t, out.Bytes())); begins != maxDepth || dropped != 10+5 {
		t.Errorf("%d begins, %d dropped", begins, dropped)
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "layer/1", "a\"\\\n\x00\x1f\x7f", "\xff\xc3", "\u2028é\U0001f600"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		if err := json.Unmarshal(appendString(nil, s), &got); err != nil || got != string([]rune(s)) {
			t.Errorf("%q becomes %q, %v", s, got, err)
		}
	})
}

func TestAllocatesNothing(t *testing.T) {
	tl := New()
	check.Equal(t, testing.AllocsPerRun(100, func() { allreduce(tl, "x") }), 0, "allocations while off")
	must.OK(t, tl.Start(io.Discard, Options{MarkCycles: true}))
	check.Equal(t, testing.AllocsPerRun(1000, func() { allreduce(tl, "x") }), 0, "allocations while on")
	check.OK(t, tl.Stop())
}
