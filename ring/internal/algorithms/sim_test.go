package algorithms_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// network carries flows between goroutines, through unbounded pipes.
type network struct {
	mu    sync.Mutex
	moved *sync.Cond
	pipes map[[2]int][]byte // by sender and receiver
	links map[[2]int]bool   // pipes that were ever used
	flows []int             // by rank
	bytes []int             // sent, by rank
}

func newNetwork(size int) *network {
	n := &network{pipes: map[[2]int][]byte{}, links: map[[2]int]bool{}, flows: make([]int, size), bytes: make([]int, size)}
	n.moved = sync.NewCond(&n.mu)
	return n
}

// port is one rank's access to the network.
type port struct {
	*network
	rank int
	rng  *rand.Rand
}

func (p port) put(to int, b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := [2]int{p.rank, to}
	p.pipes[key] = append(p.pipes[key], b...)
	p.links[key] = true
	p.bytes[p.rank] += len(b)
	p.moved.Broadcast()
}

func (p port) get(from, n int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := [2]int{from, p.rank}
	for len(p.pipes[key]) < n {
		p.moved.Wait()
	}
	b := bytes.Clone(p.pipes[key][:n])
	p.pipes[key] = p.pipes[key][n:]
	return b
}

// Run receives a part in a few pieces, so that relayed bytes pass in several steps.
func (p port) Run(f *flow.Flow) error {
	p.flows[p.rank]++
	if f.To != flow.None {
		p.put(f.To, f.Sign[:])
		for _, b := range f.Send[:f.Lead] {
			p.put(f.To, b)
		}
	}
	if f.From == flow.None {
		return nil
	}
	if sign := p.get(f.From, flow.SignSize); !bytes.Equal(sign, f.Sign[:]) {
		return fmt.Errorf("rank %d: sign %q from %d, want %q", p.rank, sign, f.From, f.Sign[:])
	}
	for i, part := range f.Recv {
		elem := 1
		if part.With != nil {
			elem = f.Type.Size()
		}
		for at := 0; at < len(part.Into); {
			n := min(elem*(1+p.rng.IntN(40+len(part.Into)/elem/3)), len(part.Into)-at)
			p.receive(f, part, at, n)
			if f.Lead+i < len(f.Send) {
				p.put(f.To, f.Send[f.Lead+i][at:at+n])
			}
			at += n
		}
	}
	return nil
}

func (p port) receive(f *flow.Flow, part flow.Part, at, n int) {
	got, into := p.get(f.From, n), part.Into[at:at+n]
	if part.With == nil {
		copy(into, got)
		return
	}
	with := bytes.Clone(part.With[at : at+n])
	srcs := []unsafe.Pointer{unsafe.Pointer(&with[0]), unsafe.Pointer(&got[0])}
	if part.TheirsFirst {
		srcs[0], srcs[1] = srcs[1], srcs[0]
	}
	var plain kernel.Set
	plain.Reduce(f.Type, f.Op, unsafe.Pointer(&into[0]), srcs, n/f.Type.Size())
	if part.Divisor > 1 {
		plain.Divide(f.Type, unsafe.Pointer(&into[0]), unsafe.Pointer(&into[0]), n/f.Type.Size(), part.Divisor)
	}
}

// run runs body as every member of a team of the ranks 0, 10, 20 …
func run(t *testing.T, size int, body func(me int, team *algorithms.Team) error) *network {
	t.Helper()
	net := newNetwork(10 * size)
	ranks := make([]int, size)
	for i := range ranks {
		ranks[i] = 10 * i
	}
	var members sync.WaitGroup
	errs := make([]error, size)
	for me := range size {
		members.Go(func() {
			p := port{net, ranks[me], rand.New(rand.NewPCG(1, uint64(me)))}
			errs[me] = body(me, algorithms.New(p, ranks, me, kernel.Set{}))
		})
	}
	members.Wait()
	for me, err := range errs {
		if err != nil {
			t.Fatalf("member %d: %v", me, err)
		}
	}
	for pipe, rest := range net.pipes {
		if len(rest) > 0 {
			t.Fatalf("%d bytes from rank %d to %d were never taken", len(rest), pipe[0], pipe[1])
		}
	}
	return net
}
