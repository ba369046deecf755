package ring

import (
	"unsafe"

	"github.com/gorun/gorun/ring/internal/kernel"
)

// link is an ordered stream of bytes to and from one other rank: [tcp.Link] says
// how each method behaves.
type link interface {
	Send(b []byte)
	Flush() error
	Recv(b []byte) error
	Pending(b []byte) bool
}

// mesh is a set of ranks that are joined by links. It runs the collectives on raw
// bytes, one at a time. A mesh of one rank has no links.
type mesh struct {
	rank, size int
	links      map[int]link
	rounds     [][]int // meetings of this rank
	next, prev link    // nil when alone
	prevRank   int

	kernels kernel.Set
	pair    [2]unsafe.Pointer // of a combination, so that it need not be allocated

	segment      int    // bytes that are received, then combined or passed on
	scratch      []byte // one segment, aligned for every type
	mine, theirs [callSize]byte
}

// segmentSize keeps a segment in the cache of a core between receiving and
// combining it, and is long enough to make a system call cheap.
const segmentSize = 256 << 10

// newMesh makes a mesh from the links to all ranks in meetings(rank, size).
// Segment is a multiple of 8.
func newMesh(rank, size, segment int, links map[int]link, kernels kernel.Set) *mesh {
	m := &mesh{rank: rank, size: size, links: links, rounds: meetings(rank, size), segment: segment, kernels: kernels}
	if size > 1 {
		m.prevRank = (rank - 1 + size) % size
		m.next, m.prev = links[(rank+1)%size], links[m.prevRank]
		m.scratch = bytesOf(make([]float64, segment/8))
	}
	return m
}

// agree is a barrier that carries what each rank is about to do. When it returns
// without error, every rank is in the same call, so data can flow: nobody pushes
// it to a rank that is late. See setUserTimeout in package tcp for why that counts.
func (m *mesh) agree(call Call) error {
	call.encode(&m.mine)
	for _, others := range m.rounds {
		if err := m.meet(others, call); err != nil {
			return err
		}
	}
	return nil
}

func (m *mesh) meet(others []int, call Call) error {
	for _, other := range others {
		m.links[other].Send(m.mine[:])
	}
	for i, other := range others {
		err := m.recv(other, m.links[other], m.theirs[:])
		if err != nil {
			return m.lastWords(others[i:], call, err)
		}
		if err := m.compare(other, call); err != nil {
			return err
		}
	}
	for _, other := range others {
		if err := m.links[other].Flush(); err != nil {
			return &linkError{other, err}
		}
	}
	return nil
}

// lastWords looks for a better reason than err among what has come from ranks that
// were not heard yet: one that saw a mismatch has sent its call before it made
// the job fail.
func (m *mesh) lastWords(silent []int, call Call, err error) error {
	for _, other := range silent {
		if m.links[other].Pending(m.theirs[:]) {
			if mismatch := m.compare(other, call); mismatch != nil {
				return mismatch
			}
		}
	}
	return err
}

// compare checks the call that has come from rank other.
func (m *mesh) compare(other int, mine Call) error {
	theirs, err := decodeCall(&m.theirs)
	if err != nil {
		return &linkError{other, err}
	}
	if theirs != mine {
		return &MismatchError{Rank: m.rank, Peer: other, Mine: mine, Theirs: theirs}
	}
	return nil
}

func (m *mesh) recv(from int, l link, b []byte) error {
	if err := l.Recv(b); err != nil {
		return &linkError{from, err}
	}
	return nil
}

// flush waits until nothing is being sent from the caller's buffers.
func (m *mesh) flush() error {
	if m.next == nil {
		return nil
	}
	if err := m.next.Flush(); err != nil {
		return &linkError{(m.rank + 1) % m.size, err}
	}
	return nil
}

// cut returns the segment of b that starts at off, or nothing past the end.
func (m *mesh) cut(b []byte, off int) []byte {
	return b[min(off, len(b)):min(off+m.segment, len(b))]
}
