package engine

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"time"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// What Measure sends. A burst is long enough for TCP to reach the speed of the link.
const (
	meetings  = 6
	volley    = 8 // messages in a row
	volleys   = 3
	burstPart = 64 << 10
	burstMin  = 4  // parts
	burstMax  = 64 // parts
	burstTime = time.Millisecond
	burstWait = 20 // latencies, if that is longer: TCP's window doubles in two

	// notable is how many times the usual time per byte makes a rank slow. Less may be other work
	// of its machine.
	notable = 2
)

// Sample is what the network costs as one rank sees it; zero where it was not measured.
type Sample algorithms.Cost

// Measure exchanges a few messages and a burst with this rank's counterparts in other domains: some
// milliseconds of a local network, about thirty latencies of a distant one. All ranks call it,
// before the first collective. Crowded means that this rank shares its processor: then messages
// wait for processors, and that does not overlap.
func (f *Fabric) Measure(epoch uint64, crowded bool) (Sample, error) {
	s := Sample{Gamma: f.combining()}
	if f.peers == nil {
		return s, nil
	}
	collective.Encode(&collective.Call{Kind: collective.Message, Epoch: epoch}, &f.sign)
	m := meter{
		team:   f.peers,
		sign:   &f.sign,
		me:     f.domain,
		n:      len(f.domains),
		memory: memory(2 * burstPart),
	}
	if f.split() {
		m.me = f.rank
	}
	for _, step := range []func(*Sample) error{m.latency, m.overhead, m.burst} {
		if err := step(&s); err != nil {
			return s, err
		}
	}
	if crowded {
		s.Overhead = busy(s, f.net.Trip())
	}
	return s, nil
}

// busy returns the overhead of messages of a rank that shares its processor: all of their latency
// is time for which processors are busy, but not that for which the message is on the way. Trip is
// the longest of the shortest round trips to other ranks.
func busy(s Sample, trip time.Duration) int64 {
	return max(s.Overhead, s.Alpha-trip.Nanoseconds()*1000/2)
}

// combining returns the picoseconds for a byte that is combined.
func (f *Fabric) combining() int64 {
	const bytes = 64 << 10
	room := memory(2 * bytes)
	vectors := []unsafe.Pointer{unsafe.Pointer(&room[0]), unsafe.Pointer(&room[bytes])}
	best := time.Hour
	for range 4 {
		begun := time.Now()
		f.kernels.Reduce(kernel.F32, kernel.Sum, vectors[0], vectors, bytes/4)
		best = min(best, time.Since(begun))
	}
	return perByte(best, bytes)
}

func perByte(d time.Duration, bytes int) int64 { return int64(d) * 1000 / int64(bytes) }

// meter measures a team's network as member me of n.
type meter struct {
	team   *algorithms.Team
	sign   *flow.Sign
	me, n  int
	memory []byte
}

func (m *meter) swap(to, size, from int) error {
	out := m.memory[:size]
	in := m.memory[burstPart:][:size]
	if to == flow.None {
		out = nil
	}
	if from == flow.None {
		in = nil
	}
	return m.team.Swap(m.sign, nil, to, out, from, in)
}

// latency times rounds in which every member exchanges a message with another, as in a collective:
// where ranks share processors, they wait for those too.
func (m *meter) latency(s *Sample) error {
	var took [meetings]time.Duration
	for i := range took {
		begun := time.Now()
		if err := m.team.Barrier(m.sign); err != nil {
			return err
		}
		took[i] = time.Since(begun) / time.Duration(bits.Len(uint(m.n-1)))
	}
	slices.Sort(took[1:]) // the first one waits for ranks that come late
	s.Alpha = took[1+(meetings-1)/2].Nanoseconds() * 1000
	return nil
}

// overhead times messages that nobody waits for.
func (m *meter) overhead(s *Sample) error {
	partner := m.me ^ 1
	if partner >= m.n {
		return nil
	}
	var took [volleys]time.Duration
	for i := range took {
		begun := time.Now()
		for _, ends := range [][2]int{{partner, flow.None}, {flow.None, partner}} {
			for range volley {
				if err := m.swap(ends[0], 8, ends[1]); err != nil {
					return err
				}
			}
		}
		took[i] = time.Since(begun)
	}
	slices.Sort(took[:])
	s.Overhead = min(s.Alpha, max(0, took[volleys/2].Nanoseconds()*1000-s.Alpha)/volley)
	return nil
}

// burst sends parts to the next member while it receives from the last one, and times the second
// half of those it receives. The first byte of a part says that it is the last one.
func (m *meter) burst(s *Sample) error {
	var came [burstMax + 1]time.Time
	begun := time.Now()
	came[0] = begun
	limit := max(burstTime, burstWait*time.Duration(s.Alpha/1000))
	next := (m.me + 1) % m.n
	last := (m.me + m.n - 1) % m.n
	sent := 0
	received := 0
	for next != flow.None || last != flow.None {
		sent++
		m.memory[0] = 0
		if sent == burstMax || sent >= burstMin && time.Since(begun) > limit {
			m.memory[0] = 1
		}
		if err := m.swap(next, burstPart, last); err != nil {
			return err
		}
		if m.memory[0] == 1 {
			next = flow.None
		}
		if last == flow.None {
			continue
		}
		if received < burstMax {
			received++
		}
		came[received] = time.Now()
		if m.memory[burstPart] == 1 {
			last = flow.None
		}
	}
	half := received / 2
	s.Beta = max(1, perByte(came[received].Sub(came[half]), (received-half)*burstPart))
	return nil
}

// Encode returns s for the other ranks.
func (s Sample) Encode() []byte {
	var b []byte
	for _, v := range []int64{s.Alpha, s.Overhead, s.Beta, s.Gamma} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

func decodeSample(b []byte) (s Sample, err error) {
	if len(b) != 32 {
		return s, fmt.Errorf("%d bytes, want 32", len(b))
	}
	for i, v := range []*int64{&s.Alpha, &s.Overhead, &s.Beta, &s.Gamma} {
		*v = int64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return s, nil
}

// Agree returns the costs that all ranks use, from the encoded samples of all: the usual values,
// and the slowest rank.
func Agree(samples [][]byte) (algorithms.Cost, error) {
	var values [4][]int64
	var c algorithms.Cost
	for rank, text := range samples {
		s, err := decodeSample(text)
		if err != nil {
			return c, fmt.Errorf("what rank %d measured: %w", rank, err)
		}
		if s.Beta > c.Slow {
			c.Slow = s.Beta
			c.Slowest = rank
		}
		for i, v := range []int64{s.Alpha, s.Overhead, s.Beta, s.Gamma} {
			if v > 0 {
				values[i] = append(values[i], v)
			}
		}
	}
	for i, v := range []*int64{&c.Alpha, &c.Overhead, &c.Beta, &c.Gamma} {
		slices.Sort(values[i])
		if n := len(values[i]); n > 0 {
			*v = values[i][(n-1)/2]
		}
	}
	if c.Slow < notable*c.Beta {
		c.Slow = c.Beta
		c.Slowest = 0
	}
	return c.Clamp(), nil
}

// Tune sets the costs by which algorithms are chosen, and the only algorithm that may be, or 0. All
// ranks set the same, before the first collective. The slowest member is a rank.
func (f *Fabric) Tune(c algorithms.Cost, only algorithms.Algorithm) {
	if f.all == nil {
		return
	}
	f.cost = c
	f.all.Tune(c, only)
	f.cost.Slowest = f.at[c.Slowest]
	if f.peers != nil && f.peers != f.all {
		f.peers.Tune(f.cost, only)
	}
}
