package control

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// tailSize is the size in bytes of the records that a running job keeps for late or slow readers.
const tailSize = 2 << 20

// paceTime is the longest delay of output by a log that makes no progress. It applies once.
const paceTime = time.Second

// Tail keeps the last output of a job for any number of readers. A reader that is slower than the
// output loses records; it never holds the job up. It is safe for concurrent use.
type Tail struct {
	mu         sync.Mutex
	records    []keptRecord
	start, end int64         // positions in the stream of all records; start is a record boundary
	more       chan struct{} // closed when records arrive or the stream ends; nil: no waiters
	closed     bool

	logged  int64         // position up to which the log has taken records
	logs    bool          // whether a log exists
	stuck   bool          // whether the log makes no progress: writers do not wait for it
	written chan struct{} // closed when the log makes progress; nil: no waiters
}

// keptRecord is a record and its position in the stream.
type keptRecord struct {
	at    int64
	bytes []byte
}

// NewTail returns an empty tail. With paced, output waits for a slower log, but not for a stuck
// one.
func NewTail(paced bool) *Tail { return &Tail{logs: paced} }

// Add appends a record. Data longer than 64 KiB is split.
func (t *Tail) Add(at time.Time, rank, fd int, data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for first := true; first || len(data) > 0; first = false {
		piece := data[:min(len(data), maxRecord)]
		data = data[len(piece):]
		t.pace()
		if t.closed {
			return
		}
		t.add(at, rank, fd, piece)
	}
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
}

// pace waits until the log has caught up or is stuck.
func (t *Tail) pace() {
	for t.logs && !t.stuck && !t.closed && t.end-t.logged > tailSize/2 {
		if t.written == nil {
			t.written = make(chan struct{})
		}
		progress := t.written
		if t.more != nil {
			close(t.more)
			t.more = nil
		}
		t.mu.Unlock()
		select {
		case <-progress:
			t.mu.Lock()
		case <-time.After(paceTime):
			t.mu.Lock()
			t.stuck = true
		}
	}
}

func (t *Tail) add(at time.Time, rank, fd int, data []byte) {
	record := make([]byte, 0, recordHead+len(data))
	record = append(appendHead(record, at, rank, fd, len(data)), data...)
	t.records = append(t.records, keptRecord{t.end, record})
	t.end += int64(len(record))
	for t.end-t.start > tailSize {
		t.start += int64(len(t.records[0].bytes))
		t.records[0].bytes = nil
		t.records = t.records[1:]
	}
}

// Read appends records from a position on to buf[:0], at most cap(buf) bytes but at least one
// record, and returns them with the next position. A gap takes the place of records that are no
// longer there. With wait it waits for the first one. Nothing is returned when there are no more,
// or ctx has ended.
func (t *Tail) Read(ctx context.Context, from int64, buf []byte, wait bool) (records []byte, next int64) {
	for {
		t.mu.Lock()
		if from < t.end {
			break
		}
		if t.closed || !wait {
			t.mu.Unlock()
			return nil, from
		}
		if t.more == nil {
			t.more = make(chan struct{})
		}
		more := t.more
		t.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return nil, from
		}
	}
	defer t.mu.Unlock()
	records = buf[:0]
	if from < t.start {
		records = appendGap(records, t.start-from)
		from = t.start
	}
	i, found := slices.BinarySearchFunc(t.records, from, func(r keptRecord, at int64) int {
		return cmp.Compare(r.at, at)
	})
	if !found {
		return records, t.end // from is no record boundary
	}
	for _, r := range t.records[i:] {
		if from > t.records[i].at && len(records)+len(r.bytes) > cap(buf) {
			break
		}
		records = append(records, r.bytes...)
		from += int64(len(r.bytes))
	}
	return records, from
}

// Start returns the position of the oldest kept record.
func (t *Tail) Start() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.start
}

// End returns the position after the last record.
func (t *Tail) End() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end
}

// Close ends the stream: readers get what is left.
func (t *Tail) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, c := range []*chan struct{}{&t.more, &t.written} {
		if *c != nil {
			close(*c)
			*c = nil
		}
	}
}

// took sets the position up to which the log has taken records.
func (t *Tail) took(position int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logged = position
	t.stuck = t.stuck && position < t.end
	if t.written != nil {
		close(t.written)
		t.written = nil
	}
}
