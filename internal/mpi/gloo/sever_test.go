package gloo

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

// sockaddr is where a rank awaits another.
func sockaddr(addr netip.AddrPort, seq uint64) []byte {
	r := make([]byte, recordSize)
	binary.BigEndian.PutUint16(r[2:], addr.Port())
	binary.LittleEndian.PutUint64(r[128:], seq)
	if ip := addr.Addr(); ip.Is4() {
		binary.LittleEndian.PutUint16(r, familyIPv4)
		copy(r[4:], ip.AsSlice())
	} else {
		binary.LittleEndian.PutUint16(r, familyIPv6)
		copy(r[8:], ip.AsSlice())
	}
	return r
}

// When an epoch fails, the connections of a process that has found the others are severed, once it
// had time to begin: those from where it awaits them, and to where each awaits it.
func TestSever(t *testing.T) {
	must.HaveTime(t)
	const plain = ^uint64(0)
	ends := func(texts ...string) (records []byte) {
		for i, text := range texts {
			// every other is of an unusual number
			records = append(records, sockaddr(netip.MustParseAddrPort(text), plain+uint64(i%2))...)
		}
		return records
	}
	s := fake.NewStore(1)
	a := newMember(t, s, 1)
	b := newMember(t, s, 1)
	c := newMember(t, s, 1)
	w := oneHost(a, b, c)
	a.letIn(1, 0, 3)
	b.letIn(1, 1, 3)
	c.letIn(1, 2, 3)
	w.mustAsk(t, 0, "PUT", "/global/0", ends("10.0.0.1:1001", "10.0.0.1:1002"))
	w.mustAsk(t, 1, "PUT", "/global/1", ends("[fd00::2]:1010", "[fd00::2]:1012"))
	w.mustAsk(t, 2, "PUT", "/global/2", ends("10.0.0.3:1020", "10.0.0.3:1021"))
	for rank, others := range [][]string{{"1", "2"}, {"0", "2"}, {"0", "1"}} {
		for _, other := range others {
			w.mustAsk(t, rank, "GET", "/global/"+other, nil)
		}
	}
	change := func(m *member, f func()) { m.change(f) }
	count := func(m *member) (n int) { change(m, func() { n = len(m.severed) }); return n }
	change(c, func() { close(c.failed) }) // who has not found all others is left alone
	for _, rank := range []int{0, 1} {
		w.mustAsk(t, rank, "DELETE", "/cross_"+addressOf(rank)+"/0", nil)
	}
	began := time.Now()
	change(a, func() { close(a.failed) })
	must.Until(t, "the cut", func() bool { return count(a) > 0 })
	took := time.Since(began)
	check.That(t, took >= settleTime*3/4, "cut after %v, when Horovod may just begin", took)
	wantSevered(t, a, "10.0.0.1:1001", "10.0.0.1:1002", "10.0.0.3:1020", "[fd00::2]:1010")
	began = time.Now()
	change(b, func() { close(b.failed) })
	must.Until(t, "the second cut", func() bool { return count(b) > 0 })
	took = time.Since(began)
	check.That(t, took <= settleTime, "cut %v after the epoch had failed, long after its begin", took)
	wantSevered(t, b, "10.0.0.1:1001", "10.0.0.3:1021", "[fd00::2]:1010", "[fd00::2]:1012")
	check.That(t, count(c) <= 0, "a process that had not found the others was cut off from them")
}

func wantSevered(t *testing.T, m *member, want ...string) {
	t.Helper()
	var got []string
	m.change(func() {
		for addr := range maps.Keys(m.severed[0]) {
			got = append(got, addr.String())
		}
	})
	slices.Sort(got)
	check.Slice(t, got, want, "severed")
}

// A process that has left an epoch has no connections of it.
func TestSeverLate(t *testing.T) {
	must.HaveTime(t)
	t.Parallel()
	a := newMember(t, fake.NewStore(1), 1)
	w := oneHost(a)
	a.letIn(1, 0, 1)
	_, _, err := w.ask(0, "DELETE", "/cross_0/0", nil)
	must.OK(t, err)
	failed := a.failed
	answer := reborn(w, 0)
	a.letIn(2, 0, 1)
	<-answer
	close(failed)
	time.Sleep(settleTime * 5 / 4)
	a.change(func() {
		check.That(t, len(a.severed) == 0, "it was cut off from an epoch that it had left")
	})
}
