package gloo

import (
	"encoding/binary"
	"iter"
	"maps"
	"net/netip"
	"sync"
	"time"
)

// settleTime is how long a process that has found the others is left alone: Horovod does not survive a connection that breaks while
// it begins.
const settleTime = 2 * time.Second

// maxEnds bounds what is remembered of a process in one epoch.
const maxEnds = 4 * maxRanks

// ends are the addresses that tell a process's connections to the others of an epoch from all others it has: each is from where the process
// has awaited one of them, or to where one of them has awaited it.
type ends struct {
	mu    sync.Mutex
	ranks map[string]int // the process's own, by scope
	addrs map[netip.AddrPort]bool
}

func newEnds() *ends { return &ends{ranks: map[string]int{}, addrs: map[netip.AddrPort]bool{}} }

// note takes what there is of addresses in a request and the answer to it.
func (e *ends) note(req request, body []byte, a answer) {
	rank, isRank := rankOf(req.key)
	if !isRank || a.status != ok().status {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch req.method {
	case "PUT":
		packed, err := pack(body)
		if err != nil || len(e.addrs) >= maxEnds {
			return
		}
		e.ranks[req.scope] = rank
		for _, addr := range addresses(packed) {
			e.addrs[addr] = true
		}
	case "GET":
		own, known := e.ranks[req.scope]
		if !known || own == rank || len(e.addrs) >= maxEnds {
			return
		}
		if own > rank { // there is no record of the rank for itself
			own--
		}
		for i, addr := range addresses(a.value) {
			if i == own {
				e.addrs[addr] = true
				return
			}
		}
	}
}

// all are the addresses so far.
func (e *ends) all() map[netip.AddrPort]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.addrs)
}

// addresses are those of packed records that can be told, by number.
func addresses(packed []byte) iter.Seq2[int, netip.AddrPort] {
	return func(yield func(int, netip.AddrPort) bool) {
		for i := 0; len(packed) > 0; i++ {
			size, known := packedSize(packed[0])
			if !known || len(packed) <= size {
				return
			}
			kind, r := uint16(packed[0]), packed[1:1+size]
			packed = packed[1+size:]
			if kind == packedRaw {
				kind, r = binary.LittleEndian.Uint16(r), r[2:]
			}
			var ip netip.Addr
			switch kind {
			case packedIPv4, familyIPv4:
				ip = netip.AddrFrom4([4]byte(r[2:6]))
			case packedIPv6, familyIPv6:
				ip = netip.AddrFrom16([16]byte(r[6:22])).Unmap()
			default:
				continue
			}
			if port := binary.BigEndian.Uint16(r); port != 0 && !yield(i, netip.AddrPortFrom(ip, port)) {
				return
			}
		}
	}
}

// watch severs what the process has of connections in its epoch when that has failed. Gloo sees that a process is dead where it has a
// connection to it in use; who waits for another that waits for the dead one would do so until Gloo's time is over.
func (e *Elastic) watch(s *stay) {
	settled := time.After(settleTime)
	select {
	case <-e.epochs.Failed(s.number):
	case <-s.ctx.Done():
		return
	}
	select {
	case <-settled:
	case <-s.ctx.Done():
		return
	}
	e.epochs.Sever(s.ends.all())
}
