package recorder

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/gorun/gorun/internal/host/process"
)

// ErrNone means that a process publishes no record.
var ErrNone = errors.New("it publishes no record of calls")

// Reader reads the record of another process, or of this one. It is not safe for concurrent use.
type Reader struct {
	process       *process.Process
	file          *os.File
	fd            string // number that the memory has in the process
	first, second []uint64
}

// Open finds the record of a process of this user. Its error wraps [ErrNone] if it has none.
func Open(pid int) (*Reader, error) {
	p, err := process.Open(pid)
	if err != nil {
		return nil, err
	}
	own := ownNumber(p)
	for _, fd := range slices.Backward(p.Names("fd")) { // the latest epoch first
		if !strings.HasPrefix(p.Link("fd/"+fd), "/memfd:"+memfdName+" ") {
			continue
		}
		file, err := p.Memory(fd, os.O_RDONLY)
		if err != nil {
			continue
		}
		r := &Reader{
			process: p,
			file:    file,
			fd:      fd,
			first:   make([]uint64, pageWords),
		}
		if r.load(r.first) && r.page().header.pid == own { // else it is the record of a process that forked this one
			return r, nil
		}
		file.Close()
	}
	p.Close()
	return nil, fmt.Errorf("process %d: %w", pid, ErrNone)
}

const pageWords = (pageSize + 7) / 8

// ownNumber returns the number that a process has in its own namespace.
func ownNumber(p *process.Process) uint32 {
	text, _ := p.Text("status")
	numbers := process.Field(text, "NSpid:")
	if len(numbers) == 0 {
		return 0
	}
	n, _ := strconv.ParseUint(numbers[len(numbers)-1], 10, 32)
	return uint32(n)
}

// Close releases the record.
func (r *Reader) Close() {
	r.file.Close()
	r.process.Close()
}

func (r *Reader) page() *page { return (*page)(unsafe.Pointer(&r.first[0])) }

// load copies the memory by a system call, so that no state of the file can raise a signal here.
func (r *Reader) load(words []uint64) bool {
	n, err := r.file.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), pageSize), 0)
	h := (*header)(unsafe.Pointer(&words[0]))
	return err == nil && n == pageSize && h.magic == magic && h.version == version
}

// Published reports whether the process still publishes this record; a later one does not count.
func (r *Reader) Published() bool {
	file, err := r.process.Memory(r.fd, os.O_RDONLY)
	if err != nil {
		return false
	}
	defer file.Close()
	now, err := file.Stat()
	own, failed := r.file.Stat()
	return err == nil && failed == nil && os.SameFile(own, now)
}

// Totals returns the sums over the rank's calls.
func (r *Reader) Totals() (t Totals, err error) {
	if !r.load(r.first) {
		return t, errRecord
	}
	p := r.page()
	h := &p.header
	at := p.header.time()
	all := h.past
	waited := h.waited
	for i := range p.lanes {
		l := &p.lanes[i]
		if l.id == 0 {
			continue
		}
		all.calls += l.totals.calls
		all.bytes += l.totals.bytes
		all.ticks += l.totals.ticks
		if c := &l.calls[l.count%history]; l.count > 0 && c.check == l.count && c.ended == 0 && c.began < at &&
			r.still(c) {
			all.ticks += at - c.began
		}
	}
	if h.waits != 0 && h.waits < at {
		waited += at - h.waits
	}
	scale := h.scale(at)
	return Totals{
		Calls:   all.calls,
		Bytes:   all.bytes,
		Time:    scale.of(all.ticks),
		Pending: scale.of(waited),
	}, nil
}

// still reports whether the memory holds the same call as the copied page; the call may have ended
// since.
func (r *Reader) still(c *call) bool {
	var now call
	offset := uintptr(unsafe.Pointer(c)) - uintptr(unsafe.Pointer(&r.first[0]))
	n, err := r.file.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(&now)), unsafe.Sizeof(now)), int64(offset))
	now.ended = c.ended
	return err == nil && n == int(unsafe.Sizeof(now)) && now == *c
}

var errRecord = errors.New("the record of calls is of another version of gorun, or damaged")

// time returns the present in ticks of the record's clock.
func (h *header) time() uint64 {
	if h.clock == counter {
		return readCounter()
	}
	return monotonic()
}

// Read returns a snapshot of the rank.
func (r *Reader) Read() (Snapshot, error) {
	if r.second == nil {
		r.second = make([]uint64, pageWords)
	}
	if !r.load(r.first) || !r.load(r.second) {
		return Snapshot{}, errRecord
	}
	p := r.page()
	again := (*page)(unsafe.Pointer(&r.second[0]))
	h := &p.header
	at := h.time()
	scale := h.scale(at)
	s := Snapshot{
		Rank:    int(h.rank),
		Size:    int(h.size),
		Epoch:   int(h.epoch),
		Pending: int(min(h.pending, 1<<30)),
		Joined:  h.joined != 0,
	}
	s.Since = scale.between(max(h.ticks, h.joined), at)
	all := h.past
	for i := range p.lanes {
		l := &p.lanes[i]
		if l.id == 0 || again.lanes[i].id != l.id {
			continue
		}
		all.calls += l.totals.calls
		all.bytes += l.totals.bytes
		all.ticks += l.totals.ticks
		s.Comms = append(s.Comms, l.read(&again.lanes[i], scale, at))
	}
	for i := range p.tensors {
		if t := &p.tensors[i]; t.check != 0 && again.tensors[i] == *t {
			s.Tensors = append(s.Tensors, Call{
				Comm:  t.queue,
				Kind:  int(t.kind),
				Bytes: t.bytes,
				Name:  text(t.name[:], t.length),
				To:    -1,
				From:  -1,
				Began: scale.between(t.began, at),
			})
		}
	}
	slices.SortStableFunc(s.Tensors, func(a, b Call) int { return int((b.Began - a.Began).Truncate(time.Microsecond)) })
	s.Calls = all.calls
	s.Bytes = all.bytes
	s.Time = scale.of(all.ticks)
	return s, nil
}

// read returns the lane's calls that were not overwritten meanwhile. It compares all of a call,
// since a processor may load the words of one copy in any order; those of the second come after the
// first, as the kernel's locks see to.
func (l *lane) read(again *lane, scale scale, at uint64) Comm {
	c := Comm{ID: l.id, Size: int(min(l.size, 1<<30)), Count: l.count}
	for back := min(l.count, history); back > 0; back-- {
		n := l.count - back + 1
		before := l.calls[n%history]
		e := &again.calls[n%history]
		before.ended = e.ended
		if before.check != n || before != *e {
			continue
		}
		call := Call{
			Comm:   l.id,
			Number: e.seq,
			Kind:   int(e.kind),
			Bytes:  e.bytes,
			Name:   text(e.name[:], e.length),
			More:   int(e.more),
			To:     int(e.to),
			From:   int(e.from),
			Began:  scale.between(e.began, at),
			Over:   e.ended != 0,
		}
		if KindName(call.Kind) != "message" {
			call.To = -1
			call.From = -1
		}
		if call.Over {
			call.Took = scale.between(e.began, e.ended)
		} else {
			call.Took = call.Began
		}
		c.Calls = append(c.Calls, call)
	}
	return c
}

func text(name []byte, length uint8) string { return string(name[:min(int(length), len(name))]) }

// scale is the number of nanoseconds in a tick.
type scale float64

// scale returns the nanoseconds of a tick, from both clocks at the start of the record and now, at
// ticks.
func (h *header) scale(now uint64) scale {
	if h.clock == nanoseconds {
		return 1
	}
	elapsed := int64(monotonic() - h.monotonic)
	ticks := int64(now - h.ticks)
	s := scale(float64(elapsed) / float64(ticks))
	if elapsed <= 0 || ticks <= 0 || s < 0.05 || s > 1e5 { // a rank in a namespace with times of its own
		return 0
	}
	return s
}

func (s scale) of(ticks uint64) time.Duration {
	return time.Duration(min(float64(s)*float64(ticks), 1<<62))
}

func (s scale) between(from, to uint64) time.Duration {
	if to <= from {
		return 0
	}
	return s.of(to - from)
}
