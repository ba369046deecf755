package timeline

import (
	"io"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	tail       = "\n]\n"                // the end of a trace
	flushBytes = 64 << 10               // largest write
	flushEvery = 200 * time.Millisecond // bounds what a killed process loses
	maxRows    = 1 << 16                // tensors; events of others are dropped
	maxDepth   = 16                     // phases within phases
)

// session is a timeline from a Start to the next Stop.
type session struct {
	w      io.Writer
	clock  func() time.Time
	began  time.Time
	marks  bool
	events chan event
	quit   chan struct{} // closed by Stop
	done   chan struct{} // closed when the last byte is written

	dropped atomic.Uint64

	// Of the writer's goroutine, until done.
	rows *rows
	buf  []byte // whole events
	held uint64 // how many
	err  error
}

// put hands ev to the writer, or drops it if that would wait.
func (s *session) put(ev event) {
	ev.at = s.clock().Sub(s.began)
	select {
	case s.events <- ev:
	default:
		s.dropped.Add(1)
	}
}

func (s *session) loop() {
	defer close(s.done)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case ev := <-s.events:
			s.take(ev)
		case <-tick.C:
			s.flush()
		case <-s.quit:
			s.finish()
			return
		}
	}
}

// finish writes the remaining events and the end of the trace.
func (s *session) finish() {
	for range len(s.events) {
		s.take(<-s.events)
	}
	at := s.clock().Sub(s.began)
	for _, r := range s.rows.order {
		s.buf = r.close(s.buf, 0, at, Args{})
	}
	s.flush()
	s.buf = start(s.buf, 'i', at, 0)
	s.buf = append(s.buf, `,"s":"g","name":"TIMELINE_END","args":{"dropped":`...)
	s.buf = strconv.AppendUint(s.buf, s.dropped.Load(), 10)
	s.buf = append(s.buf, "}}"+tail...)
	s.flush()
}

func (s *session) take(ev event) {
	b, ok := s.rows.add(s.buf, ev)
	if !ok {
		s.dropped.Add(1)
		return
	}
	s.buf = b
	s.held++
	if len(s.buf) >= flushBytes {
		s.flush()
	}
}

// flush writes whole events. After an error they are dropped.
func (s *session) flush() {
	if len(s.buf) == 0 {
		return
	}
	if s.err == nil {
		_, s.err = s.w.Write(s.buf)
	}
	if s.err != nil {
		s.dropped.Add(s.held)
	}
	s.buf = s.buf[:0]
	s.held = 0
}

// appendHead writes the start of a trace. The first event is about the trace itself; all
// others begin with a comma.
func appendHead(b []byte, began time.Time) []byte {
	b = append(b, "[\n"...)
	b = appendMeta(b, 0, "process_name", "start_time_since_epoch_in_micros", strconv.FormatInt(began.UnixMicro(), 10))
	return append(b, ",\n"+`{"ph":"M","pid":0,"name":"process_sort_index","args":{"sort_index":-1}}`...)
}

// rows convert events to text, and ensure that those of a tensor nest.
type rows struct {
	byTensor map[string]*row
	order    []*row
	limit    int
}

func newRows(limit int) *rows { return &rows{byTensor: make(map[string]*row), limit: limit} }

// row is one tensor.
type row struct {
	pid  int
	last time.Duration // time of the last event, so that no end precedes its begin
	open []phase       // the innermost is the last
}

type phase struct{ prefix, name string }

// add appends the text of ev to b. It returns false if ev must be dropped.
func (rs *rows) add(b []byte, ev event) ([]byte, bool) {
	if ev.kind == cycle {
		b = start(b, 'i', ev.at, 0)
		return append(b, `,"s":"g","name":"CYCLE_START"}`...), true
	}
	r := rs.byTensor[ev.tensor]
	if r == nil {
		if len(rs.order) == rs.limit {
			return b, false
		}
		r = &row{pid: len(rs.order) + 1}
		rs.byTensor[ev.tensor] = r
		rs.order = append(rs.order, r)
		b = appendMeta(append(b, ",\n"...), r.pid, "process_name", "name", string(appendString(nil, ev.tensor)))
		b = appendMeta(append(b, ",\n"...), r.pid, "process_sort_index", "sort_index", strconv.Itoa(r.pid))
	}
	r.last = max(r.last, ev.at)
	switch ev.kind {
	case beginTop:
		b = r.close(b, 0, r.last, Args{})
		return r.begin(b, ev), true
	case beginNest:
		if len(r.open) == maxDepth {
			return b, false
		}
		return r.begin(b, ev), true
	case ready:
		b = start(b, 'X', r.last, r.pid)
		b = append(b, `,"dur":0,"name":"`...)
		b = strconv.AppendInt(b, int64(ev.rank), 10)
		return append(b, `"}`...), true
	}
	for i := len(r.open) - 1; i >= 0; i-- {
		if r.open[i] == (phase{ev.prefix, ev.name}) {
			return r.close(b, i, r.last, ev.args), true
		}
	}
	return b, true // its begin was dropped
}

func (r *row) begin(b []byte, ev event) []byte {
	r.open = append(r.open, phase{ev.prefix, ev.name})
	b = start(b, 'B', r.last, r.pid)
	return append(appendName(b, ev.prefix, ev.name), '}')
}

// close ends phase i and all within it. The args belong to phase i.
func (r *row) close(b []byte, i int, at time.Duration, args Args) []byte {
	for j := len(r.open) - 1; j >= i; j-- {
		b = start(b, 'E', at, r.pid)
		b = appendName(b, r.open[j].prefix, r.open[j].name)
		if j == i {
			b = appendArgs(b, args)
		}
		b = append(b, '}')
	}
	r.open = r.open[:min(i, len(r.open))]
	return b
}
