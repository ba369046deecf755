package gloo

import (
	"encoding/binary"
	"iter"
	"maps"
	"net/netip"
	"sync"
	"time"
)

// settleTime protects a process that has just connected: Horovod does not survive a broken
// connection while it initializes.
const settleTime = 2 * time.Second

// maxEnds bounds the addresses kept for a process in one epoch.
const maxEnds = 4 * maxRanks

// ends holds the addresses that identify a process's connections to the others of an epoch: where
// it listened for one of them, or one of them for it.
type ends struct {
	mu    sync.Mutex
	ranks map[string]int // the process's own rank in each scope
	addrs map[netip.AddrPort]bool
}

func newEnds() *ends { return &ends{ranks: map[string]int{}, addrs: map[netip.AddrPort]bool{}} }

// note records the addresses in a request and its answer.
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
		if own > rank { // a rank has no record for itself
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

func (e *ends) all() map[netip.AddrPort]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.addrs)
}

// addresses returns the addresses of packed records, by index.
func addresses(packed []byte) iter.Seq2[int, netip.AddrPort] {
	return func(yield func(int, netip.AddrPort) bool) {
		for i := 0; len(packed) > 0; i++ {
			size, known := packedSize(packed[0])
			if !known || len(packed) <= size {
				return
			}
			kind := uint16(packed[0])
			r := packed[1 : 1+size]
			packed = packed[1+size:]
			if kind == packedRaw {
				kind = binary.LittleEndian.Uint16(r)
				r = r[2:]
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

// watch severs the process's connections of its epoch when the epoch has failed. Gloo notices a
// dead process only on a connection in use: a process that waits for one that waits for the dead
// one would wait until Gloo's timeout.
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
