package timeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// record is an event as a reader of the file sees it.
type record struct {
	Ph   string         `json:"ph"`
	Name string         `json:"name"`
	TS   float64        `json:"ts"`
	PID  int            `json:"pid"`
	Args map[string]any `json:"args"`
}

func parse(t *testing.T, text []byte) []record {
	t.Helper()
	var all []record
	err := json.Unmarshal(text, &all)
	must.That(t, err == nil, "%v in:\n%s", err, text)
	return all
}

// nest fails unless begins and ends match in every row, and times do not decrease. It returns
// the number of operations, and the number of dropped events that the file reports.
func nest(t *testing.T, all []record) (begins, dropped int) {
	t.Helper()
	open := map[int][]string{}
	last := map[int]float64{}
	for i, r := range all {
		if r.PID > 0 && r.Ph != "M" {
			must.That(t, r.TS >= last[r.PID], "event %d: time goes back in row %d", i, r.PID)
			last[r.PID] = r.TS
		}
		switch names := open[r.PID]; r.Ph {
		case "B":
			begins++
			top := strings.HasPrefix(r.Name, "NEGOTIATE_") || r.Name == "ALLREDUCE"
			must.That(t, !top || len(names) == 0, "event %d: %s begins inside %v", i, r.Name, names)
			open[r.PID] = append(names, r.Name)
		case "E":
			must.That(t, len(names) != 0 && names[len(names)-1] == r.Name,
				"event %d: %s ends, open are %v", i, r.Name, names)
			open[r.PID] = names[:len(names)-1]
		case "i":
			if r.Name == "TIMELINE_END" {
				dropped = int(r.Args["dropped"].(float64))
			}
		}
	}
	for pid, names := range open {
		must.That(t, len(names) == 0, "row %d: %v never end", pid, names)
	}
	check.That(t, all[len(all)-1].Name == "TIMELINE_END", "the last event is %+v", all[len(all)-1])
	return begins, dropped
}

// begun is the number of begins in allreduce.
const begun = 6

// allreduce records all events of one operation.
func allreduce(tl *Timeline, tensor string) {
	tl.Negotiate(tensor, "ALLREDUCE")
	tl.Ready(tensor, 0)
	tl.Ready(tensor, 1)
	tl.Negotiated(tensor, "ALLREDUCE")
	tl.Begin(tensor, "ALLREDUCE")
	for _, phase := range []string{Queue, MemcpyIn, "RING_ALLREDUCE", MemcpyOut} {
		tl.Enter(tensor, phase)
		tl.Leave(tensor, phase)
	}
	tl.End(tensor, "ALLREDUCE", Args{DType: "float32", Shape: "[3, 4]", Count: 12})
	tl.Cycle()
}

// ticking returns a timeline whose clock advances by 1500 ns at each reading.
func ticking() *Timeline {
	var mu sync.Mutex
	now := time.UnixMicro(1_700_000_000_000_000)
	return &Timeline{clock: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(1500)
		return now
	}}
}

func TestTranscript(t *testing.T) {
	tl := ticking()
	var out bytes.Buffer
	must.OK(t, tl.Start(&out, Options{MarkCycles: true}))
	tl.Cycle()
	tl.Negotiate("a\"b\x01\xff", "ALLREDUCE")
	tl.Ready("a\"b\x01\xff", 1)
	tl.Negotiated("a\"b\x01\xff", "ALLREDUCE")
	tl.Begin("a\"b\x01\xff", "ALLREDUCE")
	tl.Enter("a\"b\x01\xff", Queue)
	tl.Leave("a\"b\x01\xff", Queue)
	tl.End("a\"b\x01\xff", "ALLREDUCE", Args{DType: "float32", Count: 12})
	tl.Begin("barrier", "BARRIER")
	must.OK(t, tl.Stop())
	const want = `[
{"ph":"M","pid":0,"name":"process_name","args":{"start_time_since_epoch_in_micros":1700000000000001}},
{"ph":"M","pid":0,"name":"process_sort_index","args":{"sort_index":-1}},
{"ph":"i","ts":1.500,"pid":0,"tid":1,"s":"g","name":"CYCLE_START"},
{"ph":"M","pid":1,"name":"process_name","args":{"name":"a\"b\u0001` + "\uFFFD" + `"}},
{"ph":"M","pid":1,"name":"process_sort_index","args":{"sort_index":1}},
{"ph":"B","ts":3.000,"pid":1,"tid":1,"name":"NEGOTIATE_ALLREDUCE"},
{"ph":"X","ts":4.500,"pid":1,"tid":1,"dur":0,"name":"1"},
{"ph":"E","ts":6.000,"pid":1,"tid":1,"name":"NEGOTIATE_ALLREDUCE"},
{"ph":"B","ts":7.500,"pid":1,"tid":1,"name":"ALLREDUCE"},
{"ph":"B","ts":9.000,"pid":1,"tid":1,"name":"QUEUE"},
{"ph":"E","ts":10.500,"pid":1,"tid":1,"name":"QUEUE"},
{"ph":"E","ts":12.000,"pid":1,"tid":1,"name":"ALLREDUCE","args":{"dtype":"float32","count":12}},
{"ph":"M","pid":2,"name":"process_name","args":{"name":"barrier"}},
{"ph":"M","pid":2,"name":"process_sort_index","args":{"sort_index":2}},
{"ph":"B","ts":13.500,"pid":2,"tid":1,"name":"BARRIER"},
{"ph":"E","ts":15.000,"pid":2,"tid":1,"name":"BARRIER"},
{"ph":"i","ts":15.000,"pid":0,"tid":1,"s":"g","name":"TIMELINE_END","args":{"dropped":0}}
]
`
	check.That(t, out.String() == want, "got\n%s\nwant\n%s", &out, want)
	nest(t, parse(t, out.Bytes()))
}

// writes keeps each Write separately.
type writes struct{ chunks [][]byte }

func (w *writes) Write(b []byte) (int, error) {
	w.chunks = append(w.chunks, bytes.Clone(b))
	return len(b), nil
}

// A process can be killed between any two writes. The file then lacks only the bracket.
func TestCutAnywhere(t *testing.T) {
	tl := New()
	var out writes
	must.OK(t, tl.Start(&out, Options{Buffer: 1 << 20}))
	for i := range 300 {
		allreduce(tl, fmt.Sprintf("tensor %d", i%7))
	}
	must.OK(t, tl.Stop())
	var text []byte
	for i, chunk := range out.chunks {
		text = append(text, chunk...)
		if i < len(out.chunks)-1 {
			parse(t, append(bytes.Clone(text), ']'))
		}
	}
	check.That(t, len(out.chunks) >= 4, "all was written in %d pieces", len(out.chunks))
	whole := parse(t, text)
	begins, _ := nest(t, whole)
	check.That(t, begins == 300*begun, "%d begins, want %d", begins, 300*begun)

	lines := bytes.SplitAfter(text, []byte("}"))
	var part []byte
	cuts := 0
	for _, line := range lines[:100] {
		part = append(part, line...)
		if bytes.Count(part, []byte("{")) == bytes.Count(part, []byte("}")) {
			cuts++
			got := parse(t, append(bytes.Clone(part), ']'))
			check.That(t, len(got) == cuts, "%d events in what is cut after %d", len(got), cuts)
		}
	}
}

// gate is a writer that blocks until it is opened.
type gate struct {
	open chan struct{}
	bytes.Buffer
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.open
	return g.Buffer.Write(b)
}

// A blocked writer costs events, and no caller waits for it: it is opened only after all
// callers have returned.
func TestSlowWriter(t *testing.T) {
	tl := New()
	out := &gate{open: make(chan struct{})}
	must.OK(t, tl.Start(out, Options{Buffer: 100}))
	const callers = 8
	const events = 5000
	var work sync.WaitGroup
	for i := range callers {
		work.Go(func() {
			for range events {
				tl.Ready(fmt.Sprintf("tensor %d", i), i)
			}
		})
	}
	work.Wait()
	close(out.open)
	must.OK(t, tl.Stop())
	all := parse(t, out.Bytes())
	written := 0
	for _, r := range all {
		if r.Ph == "X" {
			written++
		}
	}
	_, dropped := nest(t, all)
	check.That(t, written >= 100 && dropped != 0 && written+dropped == callers*events,
		"of %d events, %d are written and %d are said to be dropped", callers*events, written, dropped)
}

// Whatever subset of the events gets through, begins and ends match.
func TestNestsWhateverIsDropped(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 0))
		rows := newRows(3)
		b := appendHead(nil, time.Unix(0, 0))
		s := &session{
			rows:  rows,
			buf:   b,
			clock: time.Now,
			w:     &bytes.Buffer{},
		}
		full := &session{
			events: make(chan event, 1000),
			clock:  time.Now,
			began:  time.Now(),
			marks:  true,
		}
		tl := New()
		tl.run.Store(full)
		for i := range 40 {
			allreduce(tl, fmt.Sprint(i%3))
		}
		for range len(full.events) {
			ev := <-full.events
			if random.IntN(100) < 30 {
				continue
			}
			if random.IntN(10) == 0 {
				ev.at -= time.Duration(random.IntN(1e6)) // two goroutines got in each other's way
				ev.at = max(ev.at, 0)
			}
			s.take(ev)
		}
		s.finish()
		nest(t, parse(t, s.w.(*bytes.Buffer).Bytes()))
	}
}
