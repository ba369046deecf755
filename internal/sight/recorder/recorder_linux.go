package recorder

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/release"
)

// Recorder is the record of one rank. A nil Recorder, and a nil Lane, record nothing. Its methods
// are safe for concurrent use.
type Recorder struct {
	page  *page
	calls []byte // the page behind its first piece that the kernel can free
	file  *os.File
	clock clock

	mu     sync.Mutex
	turn   uint64
	free   []int // indexes of free tensor slots
	closed bool
	dumper *dumper // nil: not a Go program
}

// New publishes a record for this process. Close withdraws it.
func New(rank, size, epoch int) (*Recorder, error) {
	fd, err := unix.MemfdCreate(memfdName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make the record of calls: %w", err)
	}
	file := os.NewFile(uintptr(fd), memfdName)
	memory, err := mapPage(fd)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("make the record of calls: %w", err)
	}
	r := &Recorder{
		page:  (*page)(unsafe.Pointer(&memory[0])),
		calls: memory[os.Getpagesize():],
		file:  file,
		clock: newClock(),
	}
	// Lanes may outlive Close.
	runtime.AddCleanup(r, func(m []byte) { _ = unix.Munmap(m) }, memory)
	for i := range tensors {
		r.free = append(r.free, tensors-1-i)
	}
	h := &r.page.header
	h.version = version
	h.clock = r.clock.kind
	h.pid = uint32(os.Getpid())
	h.rank = uint32(rank)
	h.size = uint32(size)
	h.epoch = uint32(epoch)
	h.monotonic = monotonic()
	h.ticks = r.clock.now()
	r.dumper = newDumper(h)
	release.Store(&h.magic, magic)
	return r, nil
}

func mapPage(fd int) ([]byte, error) {
	if err := unix.Ftruncate(fd, int64(pageSize)); err != nil {
		return nil, err
	}
	if err := unix.Fallocate(fd, 0, 0, int64(pageSize)); err != nil { // memory that is missing later would be a SIGBUS
		return nil, err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|
		unix.F_SEAL_SEAL); err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(fd, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	_ = unix.Madvise(memory, unix.MADV_DONTFORK) // forked children make no calls
	return memory, nil
}

// Joined records that the rank has joined its job.
func (r *Recorder) Joined() {
	if r != nil {
		release.Store(&r.page.header.joined, r.clock.now())
	}
}

// Close withdraws the record. Calls after it are harmless and seen by nobody.
func (r *Recorder) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		r.dumper.close()
		r.file.Close()
		// A program may use its Comm after Close; its writes then go to new memory that nobody
		// reads.
		_ = unix.Madvise(r.calls, unix.MADV_REMOVE)
	}
}

// Lane records the calls of one communicator. One goroutine at a time calls Enter and Leave; after
// Close they do nothing.
type Lane struct {
	owner *Recorder
	lane  *lane
	id    uint64 // the communicator's id; memory with another id was freed or reused
	last  *call
	brief brief
}

// brief estimates the duration of brief calls, whose measurement would take a good part of their
// time.
type brief struct {
	usual uint64 // ticks of a call, a mean of the measured ones
	since int    // number of calls since the last measured one
}

// measureEvery is the number of brief calls for each measured one.
const measureEvery = 16

// due reports whether to measure a brief call.
func (b *brief) due() bool {
	b.since++
	return b.since >= measureEvery || b.usual == 0
}

// measured adds the ticks of a brief call to the mean. An interrupted call counts little.
func (b *brief) measured(took uint64) {
	b.since = 0
	if b.usual == 0 {
		b.usual = max(took, 1)
		return
	}
	b.usual = b.usual - b.usual/8 + min(took, 4*b.usual+64)/8
}

// Lane returns a lane for a communicator of size ranks, or nil if too many are in use. All ranks
// give it the same name.
func (r *Recorder) Lane(name string, size int) *Lane {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.page.lanes {
		l := &r.page.lanes[i]
		if l.id != 0 {
			continue
		}
		*l = lane{size: uint64(size)}
		id := hash(name)
		release.Store(&l.id, id)
		return &Lane{
			owner: r,
			lane:  l,
			id:    id,
			last:  new(call),
		}
	}
	return nil
}

// Close frees the lane. Its counters stay in the totals, its calls do not.
func (l *Lane) Close() {
	if l == nil {
		return
	}
	l.owner.mu.Lock()
	defer l.owner.mu.Unlock()
	if l.lane.id != l.id {
		return
	}
	past := &l.owner.page.header.past
	past.calls += l.lane.totals.calls
	past.bytes += l.lane.totals.bytes
	past.ticks += l.lane.totals.ticks
	release.Clear(&l.lane.id)
}

// Enter records the start of a call. Kind is an index of [KindName], seq the number of the call in
// its communicator. Name is that of a tensor, more how many others go with it; to and from are the
// partners of a message.
func (l *Lane) Enter(kind uint8, seq, bytes uint64, to, from int, name string, more int) {
	if l == nil || l.lane.id != l.id {
		return
	}
	n := l.lane.count + 1
	c := &l.lane.calls[n%history]
	release.Clear(&c.check)
	c.seq = seq
	c.began = l.owner.clock.now()
	c.ended = 0
	c.bytes = bytes
	c.kind = kind
	c.more = uint32(more)
	c.to = int32(to)
	c.from = int32(from)
	c.length = uint8(copy(c.name[:], name))
	release.Store(&c.check, n)
	release.Store(&l.lane.count, n)
	l.last = c
}

// Leave records the end of the last call. brief means a call of a few microseconds at most: one of
// 16 such calls is measured, and the others are recorded with the mean.
func (l *Lane) Leave(brief bool) {
	if l == nil || l.last.ended != 0 || l.lane.id != l.id {
		return
	}
	took := l.brief.usual
	if !brief || l.brief.due() {
		took = max(1, l.owner.clock.now()-l.last.began) // a tick may be longer than the call: 40 ns on some processors
		if brief {
			l.brief.measured(took)
		}
	}
	release.Store(&l.last.ended, l.last.began+took)
	l.lane.totals.calls++
	l.lane.totals.bytes += l.last.bytes
	l.lane.totals.ticks += took
}

// Submitted records a tensor that waits for other ranks, in a queue of the communicator called
// comm. Done takes what it returns.
func (r *Recorder) Submitted(comm string, kind uint8, bytes uint64, name string) (slot int) {
	if r == nil {
		return noSlot
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &r.page.header
	now := r.clock.now()
	if h.pending++; h.pending == 1 {
		release.Store(&h.waits, now)
	}
	last := len(r.free) - 1
	if last < 0 {
		return noSlot
	}
	slot = r.free[last]
	r.free = r.free[:last]
	r.turn++
	t := &r.page.tensors[slot]
	t.queue = hash(comm)
	t.began = now
	t.bytes = bytes
	t.kind = kind
	t.length = uint8(copy(t.name[:], name))
	release.Store(&t.check, r.turn)
	return slot
}

// noSlot marks a tensor for which no slot was free.
const noSlot = -1

// Done records that a tensor is done.
func (r *Recorder) Done(slot int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &r.page.header
	if h.pending--; h.pending == 0 {
		h.waited += r.clock.now() - h.waits
		release.Store(&h.waits, 0)
	}
	if slot != noSlot {
		release.Clear(&r.page.tensors[slot].check)
		r.free = append(r.free, slot)
	}
}

// hash is FNV-1a, and never 0.
func hash(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h | 1
}
