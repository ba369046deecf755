package shm

import (
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/ring/internal/kernel"
)

const probeSize = 4096 // bytes of the memory by which ranks find each other

// Join determines which ranks share memory, and makes a Group of those that share it with
// this rank, numbered by their order in the domain. Every rank of the communicator calls
// it, with its rank and the communicator's size. A rank that is not willing shares with
// no other.
//
// Domains are all sets of ranks that share memory, each ascending, ordered by
// their first rank; every rank is in exactly one. They are the same on all ranks.
// g is nil if this rank is alone in its domain. broken ends every wait of g.
//
// A rank that sends an invalid answer counts as not willing. The only errors are those of
// exchange.
func Join(rank, size int, willing bool, exchange Exchange, kernels kernel.Set, broken *atomic.Bool) (g *Group,
	domains [][]int, err error) {
	j := joiner{rank, size, exchange}
	leaders, err := j.leaders(willing)
	if err != nil {
		return nil, nil, err
	}
	domains = partition(leaders)
	if !shared(domains) {
		return nil, domains, nil
	}
	seg, domains, err := j.share(domains)
	if seg == nil || err != nil {
		return nil, domains, err
	}
	_, place := domainOf(domains, rank)
	return newGroup(place, seg, kernels, broken), domains, nil
}

// joiner is one rank during Join.
type joiner struct {
	rank, size int
	exchange   Exchange
}

// ask exchanges this rank's value for those of all ranks.
func (j joiner) ask(name string, value []byte) ([][]byte, error) {
	values, err := j.exchange(name, value)
	if err != nil {
		return nil, fmt.Errorf("exchange %s of shared memory: %w", name, err)
	}
	if len(values) != j.size {
		return nil, fmt.Errorf("exchange %s of shared memory: answers of %d ranks, want %d", name, len(values), j.size)
	}
	return values, nil
}

// leaders returns every rank's leader. Each rank offers a little memory, and determines
// the lowest rank whose memory it can map.
func (j joiner) leaders(willing bool) ([]int, error) {
	var text []byte
	if willing {
		if m, offer, err := makeMemory(probeSize); err == nil {
			defer unix.Munmap(m.bytes)
			defer m.file.Close() // after all have tried to map it
			text = offer
		}
	}
	offers, err := j.ask("offer", text)
	if err != nil {
		return nil, err
	}
	var mine []byte
	if willing {
		if leader := j.leader(offers, len(text) > 0); leader != None {
			mine = strconv.AppendInt(nil, int64(leader), 10)
		}
	}
	answers, err := j.ask("leader", mine)
	if err != nil {
		return nil, err
	}
	leaders := make([]int, j.size)
	for q, text := range answers {
		leaders[q] = parseLeader(text)
	}
	return leaders, nil
}

// leader returns the lowest rank whose memory this rank can map, which may be itself.
func (j joiner) leader(offers [][]byte, offered bool) int {
	for q, text := range offers[:j.rank] {
		if m, err := openMemory(text, probeSize); err == nil {
			_ = unix.Munmap(m)
			return q
		}
	}
	if offered {
		return j.rank
	}
	return None
}

// parseLeader parses a rank's answer. partition checks that it is a rank.
func parseLeader(text []byte) int {
	if len(text) > 10 {
		return None
	}
	leader, err := strconv.Atoi(string(text))
	if err != nil {
		return None
	}
	return leader
}

// share lets the first rank of each domain make the memory and the others map it.
// If one rank of a domain fails, all of them are alone. The segment is nil if this rank
// is alone.
func (j joiner) share(domains [][]int) (*segment, [][]int, error) {
	domain, place := domainOf(domains, j.rank)
	ranks := len(domain)
	var m memory
	var text []byte
	if ranks > 1 && place == 0 {
		if made, offer, err := makeMemory(segmentSize(ranks)); err == nil {
			defer made.file.Close() // after all have mapped it
			m = made
			text = offer
		}
	}
	offers, err := j.ask("memory", text)
	if err == nil && ranks > 1 && place > 0 {
		m.bytes, _ = openMemory(offers[domain[0]], segmentSize(ranks)) // on failure nil, which agree reports
	}
	var have []byte
	var seg *segment
	if m.bytes != nil {
		seg = layOut(m.bytes, ranks)
		seg.controls[place].introduce()
		have = []byte{1}
	}
	if ranks == 1 {
		have = []byte{1}
	}
	if err == nil {
		domains, err = j.agree(domains, have)
	}
	if domain, _ = domainOf(domains, j.rank); seg != nil && (err != nil || len(domain) == 1) {
		_ = seg.close()
		seg = nil
	}
	return seg, domains, err
}

// agree tells all ranks whether this one has its domain's memory, and returns the
// remaining domains.
func (j joiner) agree(domains [][]int, have []byte) ([][]int, error) {
	all, err := j.ask("have", have)
	if err != nil {
		return nil, err
	}
	ok := make([]bool, j.size)
	for q, h := range all {
		ok[q] = len(h) == 1 && h[0] == 1
	}
	return splitFailed(domains, ok), nil
}

// introduce publishes this rank's process and its cores, before another rank can wait for
// it.
func (c *control) introduce() {
	pid := procPID()
	_, c.born, _ = processState(pid)
	c.pid.Store(int32(pid))
	_ = unix.SchedGetaffinity(0, &c.cpus)
}

func newGroup(rank int, seg *segment, kernels kernel.Set, broken *atomic.Bool) *Group {
	ranks := len(seg.controls)
	return &Group{
		rank:    rank,
		size:    ranks,
		seg:     seg,
		kernels: kernels,
		srcs:    make([]unsafe.Pointer, ranks),
		posted:  make([]uint32, ranks),
		taken:   make([]uint32, ranks),
		wait: waiter{broken: broken, controls: seg.controls,
			crowd: crowd{fair: int(math.Ceil(float64(ranks) / usableCores(seg.controls))), rank: rank,
				all: seg.controls}},
	}
}
