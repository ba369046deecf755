package ring

import (
	"math"

	"github.com/gorun/gorun/ring/internal/kernel"
	"github.com/gorun/gorun/ring/internal/nccl"
)

// translator converts calls to steps of NCCL.
type translator struct {
	rank, size int
	version    int
	scales     bool
}

// translate appends the NCCL steps of a call to steps. It returns false if NCCL cannot make the
// call.
func (d *Device) translate(steps []nccl.Step, w *DeviceCall) ([]nccl.Step, bool) {
	if d.lib == nil {
		return steps, false
	}
	t := translator{d.comm.Rank(), d.comm.Size(), d.lib.Version, d.lib.CanScale()}
	if w.Kind.Reduces() {
		return t.reduction(steps, w)
	}
	return t.move(steps, w), true
}

// reduction translates a call that combines elements.
func (t translator) reduction(steps []nccl.Step, w *DeviceCall) ([]nccl.Step, bool) {
	s := nccl.Step{Send: uintptr(w.Src.Ptr), Recv: uintptr(w.Dst.Ptr), Count: uintptr(w.Src.Len)}
	var ok bool
	if s.Type, s.Op, ok = t.operation(w.Type, w.Op); !ok {
		return steps, false
	}
	if w.scaled() {
		if !t.scales {
			return steps, false
		}
		factor := w.Scale
		if w.Op == Avg {
			factor /= float64(t.size)
		}
		s.Op = nccl.Sum
		s.Scaled = 1
		s.Scale = scaleBits(w.Type, factor)
	}
	switch {
	case w.Kind == KindAllReduce:
		s.Fn = nccl.AllReduce
	case w.Kind == KindReduce:
		s.Fn = nccl.Reduce
		s.Peer = int32(w.Root)
	case w.Counts == nil:
		s.Fn = nccl.ReduceScatter
		s.Count = uintptr(w.Dst.Len)
	default: // each part is reduced to its owner
		for rank, n := range w.Counts {
			s.Fn = nccl.Reduce
			s.Peer = int32(rank)
			s.Count = uintptr(n)
			steps = add(steps, s)
			s.Send += uintptr(n * w.Type.Size())
		}
		return steps, true
	}
	return add(steps, s), true
}

// operation converts a type and operation to NCCL's.
func (t translator) operation(typ Type, op Op) (nccl.DataType, nccl.Op, bool) {
	if typ == Bool { // its bytes are 0 and 1
		switch op {
		case Sum, Max, BOr:
			return nccl.Uint8, nccl.Max, true
		case Prod, Min, BAnd:
			return nccl.Uint8, nccl.Min, true
		}
		return 0, 0, false
	}
	types := [...]nccl.DataType{
		Float32: nccl.Float32, Float64: nccl.Float64, Float16: nccl.Float16, BFloat16: nccl.BFloat16,
		Int8: nccl.Int8, Uint8: nccl.Uint8, Int32: nccl.Int32, Int64: nccl.Int64, Uint64: nccl.Uint64,
	}
	ops := [...]nccl.Op{Sum: nccl.Sum, Avg: nccl.Avg, Min: nccl.Min, Max: nccl.Max, Prod: nccl.Prod}
	if typ == Int16 || int(op) >= len(ops) || t.version < nccl.VersionAvg && (typ == BFloat16 || op == Avg) {
		return 0, 0, false
	}
	return types[typ], ops[op], true
}

// move translates a call that only moves elements. They travel as bytes.
func (t translator) move(steps []nccl.Step, w *DeviceCall) []nccl.Step {
	src := uintptr(w.Src.Ptr)
	dst := uintptr(w.Dst.Ptr)
	switch {
	case w.Kind == KindBroadcast:
		return add(steps, bytesStep(nccl.Broadcast, w.Type, dst, dst, w.Dst.Len, w.Root))
	case w.Kind == KindMessage:
		if w.To >= 0 {
			steps = add(steps, bytesStep(nccl.Send, w.Type, src, 0, w.Src.Len, w.To))
		}
		if w.From >= 0 {
			steps = add(steps, bytesStep(nccl.Recv, w.Type, 0, dst, w.Dst.Len, w.From))
		}
		return steps
	case w.Kind == KindAllGather && w.Counts == nil:
		return add(steps, bytesStep(nccl.AllGather, w.Type, src, dst, w.Src.Len, 0))
	case w.Kind == KindAllGather:
		for rank, n := range w.Counts {
			steps = add(steps, bytesStep(nccl.Broadcast, w.Type, src, dst, n, rank))
			dst += uintptr(n * w.Type.Size())
		}
		return steps
	}
	for rank := range t.size {
		out, in := t.between(w, rank)
		if rank != t.rank || src != dst {
			steps = add(steps, bytesStep(nccl.Send, w.Type, src, 0, out, rank))
			steps = add(steps, bytesStep(nccl.Recv, w.Type, 0, dst, in, rank))
		}
		src += uintptr(out * w.Type.Size())
		dst += uintptr(in * w.Type.Size())
	}
	return steps
}

func bytesStep(fn nccl.Fn, t Type, send, recv uintptr, elements, peer int) nccl.Step {
	return nccl.Step{
		Fn:    fn,
		Type:  nccl.Uint8,
		Send:  send,
		Recv:  recv,
		Count: uintptr(elements * t.Size()),
		Peer:  int32(peer),
	}
}

// between returns how many elements this rank sends to rank and receives from it in a gather,
// scatter or alltoall.
func (t translator) between(w *DeviceCall, rank int) (out, in int) {
	part := func(counts []int, all Buffer) int {
		if counts == nil {
			return all.Len / t.size
		}
		return counts[rank]
	}
	switch w.Kind {
	case KindAllToAll:
		return part(w.Sends, w.Src), part(w.Counts, w.Dst)
	case KindGather:
		if rank == w.Root {
			out = w.Src.Len
		}
		if t.rank == w.Root {
			in = part(w.Counts, w.Dst)
		}
	case KindScatter:
		if t.rank == w.Root {
			out = part(w.Counts, w.Src)
		}
		if rank == w.Root {
			in = w.Dst.Len
		}
	}
	return out, in
}

// add appends s unless it is empty, as it then is on all ranks.
func add(steps []nccl.Step, s nccl.Step) []nccl.Step {
	if s.Count == 0 {
		return steps
	}
	return append(steps, s)
}

// scaleBits encodes factor in type t.
func scaleBits(t Type, factor float64) uint64 {
	switch t {
	case Float64:
		return math.Float64bits(factor)
	case Float16:
		return uint64(kernel.Half(float32(factor)))
	case BFloat16:
		return uint64(kernel.Brain(float32(factor)))
	}
	return uint64(math.Float32bits(float32(factor)))
}
