package bench

import (
	"unsafe"

	"github.com/gorun/gorun/ring"
)

// extent is the part of the vector that a buffer holds.
type extent uint8

const (
	none  extent = iota
	part         // part of one rank
	whole        // parts of all ranks
)

// collective describes a kind of call to a benchmark.
type collective struct {
	name     string
	kind     ring.Kind
	dst, src extent // extents of the result and input on the root, if there is one
	// Other ranks than the root have no dst, or no src.
	dstAtRoot, srcAtRoot bool
	outOfPlace, inPlace  bool
	perLink              bool // whether every link carries (n-1)/n of the vector, twice in an allreduce
}

// collectives are all benchmarks. Sizes and factors are those of nccl-tests.
func collectives() []collective {
	return []collective{
		{name: "allreduce", kind: ring.KindAllReduce, dst: whole, src: whole, outOfPlace: true, inPlace: true,
			perLink: true},
		{name: "allgather", kind: ring.KindAllGather, dst: whole, src: part, outOfPlace: true, inPlace: true,
			perLink: true},
		{name: "broadcast", kind: ring.KindBroadcast, dst: whole, inPlace: true},
		{name: "reducescatter", kind: ring.KindReduceScatter, dst: part, src: whole, outOfPlace: true, inPlace: true,
			perLink: true},
		{name: "alltoall", kind: ring.KindAllToAll, dst: whole, src: whole, outOfPlace: true, perLink: true},
		{name: "reduce", kind: ring.KindReduce, dst: whole, dstAtRoot: true, src: whole, outOfPlace: true,
			inPlace: true},
		{name: "gather", kind: ring.KindGather, dst: whole, dstAtRoot: true, src: part, outOfPlace: true, inPlace: true,
			perLink: true},
		{name: "scatter", kind: ring.KindScatter, dst: part, src: whole, srcAtRoot: true, outOfPlace: true,
			inPlace: true, perLink: true},
		{name: "sendrecv", kind: ring.KindMessage, dst: whole, src: whole, outOfPlace: true},
		{name: Barrier, kind: ring.KindBarrier, outOfPlace: true},
	}
}

// Barrier is the name of the collective that moves nothing.
const Barrier = "barrier"

// Collectives are the names that Options may have.
func Collectives() []string {
	var names []string
	for _, c := range collectives() {
		names = append(names, c.name)
	}
	return names
}

func find(name string) (collective, bool) {
	for _, c := range collectives() {
		if c.name == name {
			return c, true
		}
	}
	return collective{}, false
}

// root is the rank that broadcasts, reduces, gathers and scatters.
const root = 0

// noRoot stands in the place of a root where there is none.
const noRoot = -1

// rooted reports whether one rank has another part than the others.
func (c collective) rooted() bool {
	return c.kind == ring.KindBroadcast || c.dstAtRoot || c.srcAtRoot
}

func (c collective) combines() bool {
	return c.kind == ring.KindAllReduce || c.kind == ring.KindReduce || c.kind == ring.KindReduceScatter
}

// divides reports whether the vector is made of parts, one for each rank.
func (c collective) divides() bool {
	return c.dst == part || c.src == part || c.kind == ring.KindAllToAll
}

// factor is what every link carries for each byte of the vector, as nccl-tests
// defines it.
func (c collective) factor(n int) float64 {
	share := float64(n-1) / float64(n)
	switch {
	case c.kind == ring.KindAllReduce:
		return 2 * share
	case c.perLink:
		return share
	}
	return 1
}

// newTrial lays the buffers out in memory, whose two halves are as long as the vector or longer. It
// returns nil for a form that does not exist, and for a size that leaves a rank nothing.
func newTrial(c *ring.Comm, what collective, combo combination, memory [2][]byte, bytes int, inPlace bool) *trial {
	n := c.Size()
	rank := c.Rank()
	width := combo.typ.width
	count := bytes / width
	if what.divides() {
		count = count / n * n
	}
	if count == 0 && what.dst != none || inPlace && !what.inPlace || !inPlace && !what.outOfPlace {
		return nil
	}
	bytes = count * width
	t := &trial{c: c, factor: what.factor(n), width: width}
	t.row = Row{
		Collective: what.name,
		Ranks:      n,
		Bytes:      bytes,
		Count:      count,
		Type:       combo.typ.name,
		Root:       noRoot,
		InPlace:    inPlace,
	}
	if what.combines() {
		t.row.Op = combo.op.String()
	}
	if what.rooted() {
		t.row.Root = root
	}
	if what.kind == ring.KindBarrier {
		t.row.Type = ""
		t.call = ring.Collective{Kind: what.kind}
		return t
	}
	dst, src := what.buffers(rank, n, memory, bytes, inPlace)
	t.call = ring.Collective{
		Kind: what.kind,
		Type: combo.typ.id,
		Root: root,
		Dst:  buffer(dst, width),
		Src:  buffer(src, width),
	}
	if what.combines() {
		t.call.Op = combo.op
	}
	if what.kind == ring.KindMessage {
		t.call.Root = 0
		t.call.To = (rank + 1) % n
		t.call.From = (rank + n - 1) % n
	}
	t.out = dst
	t.begin, t.want = what.values(combo, rank, n, dst, src)
	return t
}

// buffers are dst and src of this rank.
func (c collective) buffers(rank, n int, memory [2][]byte, bytes int, inPlace bool) (dst, src []byte) {
	length := func(e extent, here bool) int {
		if !here {
			return 0
		}
		return [...]int{none: 0, part: bytes / n, whole: bytes}[e]
	}
	dst = memory[0][:length(c.dst, !c.dstAtRoot || rank == root)]
	src = memory[1][:length(c.src, !c.srcAtRoot || rank == root)]
	if !inPlace || len(dst) == 0 || len(src) == 0 {
		return dst, src
	}
	own := bytes / n * rank
	switch {
	case c.dst == part:
		dst = src[own : own+bytes/n]
	case c.src == part:
		src = dst[own : own+bytes/n]
	default:
		src = dst
	}
	return dst, src
}

func buffer(b []byte, width int) ring.Buffer {
	return ring.Buffer{Ptr: unsafe.Pointer(unsafe.SliceData(b)), Len: len(b) / width}
}

// values are the contents of memory before a call, and the expected contents of dst after it.
func (c collective) values(combo combination, rank, n int, dst, src []byte) (begin, want []segment) {
	moved := func(seed int) []byte { return combo.typ.tile(func(i int) int64 { return element(i, seed) }) }
	// blocks is one segment for each part of b.
	blocks := func(b []byte, seed func(block int) int) (all []segment) {
		for block := range n {
			size := len(b) / n
			all = append(all, segment{memory: b[block*size : (block+1)*size], tile: moved(seed(block))})
		}
		return all
	}
	one := func(b []byte, seed int) []segment { return []segment{{memory: b, tile: moved(seed)}} }
	same := func(block int) int { return block }
	switch c.kind {
	case ring.KindBroadcast:
		return one(dst, rank), one(dst, root)
	case ring.KindAllGather, ring.KindGather:
		return one(src, rank), blocks(dst, same)
	case ring.KindScatter:
		return blocks(src, same), one(dst, rank)
	case ring.KindAllToAll:
		return blocks(src, func(to int) int { return rank*n + to }), blocks(dst, func(from int) int {
			return from*n + rank
		})
	case ring.KindMessage:
		return one(src, rank), one(dst, (rank+n-1)%n)
	}
	begin = []segment{{memory: src, tile: combo.tile(rank, n)}}
	want = []segment{{memory: dst, tile: combo.combined(n)}}
	if c.dst == part {
		want[0].phase = len(dst) / combo.typ.width * rank % period
	}
	return begin, want
}
