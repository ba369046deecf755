package ring

import (
	"errors"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/kernel"
	"github.com/gorun/gorun/ring/internal/shm"
)

// group runs the collectives of all ranks on raw bytes, one call at a time. Every
// rank makes the same calls in the same order; a group finds out when they differ.
type group interface {
	allReduce(call Call, dst, src []byte) error // the same bytes, or none in common
	broadcast(call Call, buf []byte) error
	allGather(call Call, dst, src []byte) error
	barrier(call Call) error
}

// linked is the group of ranks that are joined by links. First all ranks agree on
// the call, then data flows, and the call ends when all of it is on its way.
type linked struct{ mesh *mesh }

func (g linked) allReduce(call Call, dst, src []byte) error {
	return g.run(call, func(m *mesh) error {
		copy(dst, src) // nothing when they are the same
		return m.allReduce(dst, call.Type, call.Op)
	})
}

func (g linked) broadcast(call Call, buf []byte) error {
	return g.run(call, func(m *mesh) error { return m.broadcast(buf, int(call.Root)) })
}

func (g linked) allGather(call Call, dst, src []byte) error {
	return g.run(call, func(m *mesh) error { return m.allGather(dst, src) })
}

func (g linked) barrier(call Call) error {
	// What every call begins with is all there is to it.
	return g.run(call, func(*mesh) error { return nil })
}

func (g linked) run(call Call, data func(*mesh) error) error {
	if err := g.mesh.agree(call); err != nil {
		return err
	}
	if err := data(g.mesh); err != nil {
		return err
	}
	return g.mesh.flush()
}

// local is the group of ranks that share memory.
type local struct {
	group *shm.Group
	rank  int
	size  int
}

func (g local) allReduce(call Call, dst, src []byte) error {
	divisor := 1
	if call.Op == Avg {
		divisor = g.size
	}
	return g.explain(call, g.group.AllReduce(call.sign(), kernel.DType(call.Type), call.Op.kernel(), pointer(dst), pointer(src), int(call.Count), divisor))
}

func (g local) broadcast(call Call, buf []byte) error {
	return g.explain(call, g.group.Broadcast(call.sign(), pointer(buf), len(buf), int(call.Root)))
}

func (g local) allGather(call Call, dst, src []byte) error {
	return g.explain(call, g.group.AllGather(call.sign(), pointer(dst), pointer(src), len(src)))
}

func (g local) barrier(call Call) error { return g.explain(call, g.group.Barrier(call.sign())) }

// explain turns the memory's errors into those of every group.
func (g local) explain(call Call, err error) error {
	if err == nil {
		return nil
	}
	var other *shm.SignError
	var gone *shm.GoneError
	switch {
	case errors.As(err, &other):
		return &MismatchError{Rank: g.rank, Peer: other.Rank, Mine: call, Theirs: call.signed(other.Theirs)}
	case errors.As(err, &gone):
		return &linkError{gone.Rank, errors.New("it has ended or left")}
	}
	return err
}

// sign packs what must be equal on all ranks into one word: kind, type and op in 4
// bits each, 12 bits of the root, and 40 bits of the count. One host has fewer
// ranks, and one buffer fewer elements, than that.
func (c Call) sign() uint64 {
	return uint64(c.Kind)<<60 | uint64(c.Type)<<56 | uint64(c.Op)<<52 | uint64(c.Root)&0xfff<<40 | c.Count&(1<<40-1)
}

// signed is the call that another rank made where this one made c.
func (c Call) signed(sign uint64) Call {
	c.Kind, c.Type, c.Op = Kind(sign>>60), Type(sign>>56&0xf), Op(sign>>52&0xf)
	c.Root, c.Count = uint32(sign>>40&0xfff), sign&(1<<40-1)
	return c
}

// reduce combines src into dst, element by element: dst = dst op src.
func (m *mesh) reduce(t Type, op Op, dst, src []byte) {
	m.pair[0], m.pair[1] = pointer(dst), pointer(src)
	m.kernels.Reduce(kernel.DType(t), op.kernel(), m.pair[0], m.pair[:], len(dst)/t.size())
	m.pair = [2]unsafe.Pointer{} // the caller's memory is not ours to keep
}

// divide divides every element of buf by n.
func (m *mesh) divide(t Type, buf []byte, n int) {
	p := pointer(buf)
	m.kernels.Divide(kernel.DType(t), p, p, len(buf)/t.size(), n)
}
