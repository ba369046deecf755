package shm

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	lineSize  = 128       // two cache lines: neighbours are fetched in pairs
	slots     = 4         // per rank
	slotSize  = 256 << 10 // bytes
	cells     = 2         // per rank; see Group.exchange
	cellSize  = 8 << 10   // bytes
	inline    = 48        // bytes that travel in a counter's own cache line
	nonceSize = 32
)

// control is one rank's counters, each on its own lines. A counter holds the
// number of the last block, counted over all calls, for which the step is over.
type control struct {
	in   counter        // its part of the block is in its slot
	out  counter        // its stripe's result is in its slot
	done counter        // it needs the others' slots no more
	cell [cells]counter // its message is in the cell

	signs [slots]uint64          // what the rank does with the block in each slot; valid when in is
	pid   atomic.Int32           // of the rank
	left  atomic.Uint32          // 1: it has closed the group
	stage [classes]atomic.Uint32 // rank 0's word on the staging that all should use
	_     [lineSize - 8*slots - 8 - 4*classes]byte
}

type counter struct {
	value   atomic.Uint32
	waiters atomic.Uint32 // ranks that sleep until value changes
	sign    uint64        // what the rank does; valid when value is
	data    [inline]byte  // a message so small that it fits here; valid when value is
	_       [lineSize - 64]byte
}

// segment is the mapping.
type segment struct {
	memory   []byte
	controls []*control
	staging  []unsafe.Pointer // by rank, slots × slotSize bytes
	cells    []unsafe.Pointer // by rank, cells × cellSize bytes
}

func segmentSize(ranks int) int {
	header := lineSize
	return pageUp(header+ranks*int(unsafe.Sizeof(control{}))+ranks*cells*cellSize) + ranks*slots*slotSize
}

func pageUp(n int) int { return (n + 4095) &^ 4095 }

// offer is how a rank finds the memory that another has made.
type offer struct {
	PID   int
	FD    int
	Nonce []byte // also at the start of the memory
}

// create makes the memory. The file must stay open until all ranks have it.
func create(ranks int) (*segment, *os.File, []byte, error) {
	fd, err := unix.MemfdCreate("gorun-ring", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make shared memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "memfd:gorun-ring")
	size := segmentSize(ranks)
	err = unix.Ftruncate(fd, int64(size))
	if err == nil {
		// Reserved now: memory that is missing later would be a SIGBUS.
		err = unix.Fallocate(fd, 0, 0, int64(size))
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	var s *segment
	if err == nil {
		s, err = mapSegment(fd, ranks)
	}
	if err != nil {
		file.Close()
		return nil, nil, nil, fmt.Errorf("make %d bytes of shared memory: %w", size, err)
	}
	rand.Read(s.memory[:nonceSize])
	text, err := json.Marshal(offer{os.Getpid(), fd, s.memory[:nonceSize]})
	return s, file, text, err
}

// open maps the memory that text offers.
func open(text []byte, ranks int) (*segment, error) {
	var o offer
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("no offer of shared memory: %w", err)
	}
	file, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", o.PID, o.FD), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != int64(segmentSize(ranks)) {
		return nil, errors.New("another process has that number here")
	}
	s, err := mapSegment(int(file.Fd()), ranks)
	if err != nil {
		return nil, err
	}
	if len(o.Nonce) != nonceSize || !bytes.Equal(s.memory[:nonceSize], o.Nonce) {
		s.close()
		return nil, errors.New("the memory found is another's")
	}
	return s, nil
}

func mapSegment(fd, ranks int) (*segment, error) {
	memory, err := unix.Mmap(fd, 0, segmentSize(ranks), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	// Fewer page-table misses where the kernel gives huge pages for this; it is as well without.
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE)
	s := &segment{memory: memory}
	at := lineSize
	for range ranks {
		s.controls = append(s.controls, (*control)(unsafe.Pointer(&memory[at])))
		at += int(unsafe.Sizeof(control{}))
	}
	for range ranks {
		s.cells = append(s.cells, unsafe.Pointer(&memory[at]))
		at += cells * cellSize
	}
	at = pageUp(at)
	for range ranks {
		s.staging = append(s.staging, unsafe.Pointer(&memory[at]))
		at += slots * slotSize
	}
	return s, nil
}

func (s *segment) close() error { return unix.Munmap(s.memory) }
