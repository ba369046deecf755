package link

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestLineDelaysAndLimits(t *testing.T) {
	start := time.Now()
	for _, c := range []struct {
		what   string
		line   Line
		frames int // of 1000 bytes, all at start
		want   []time.Duration
	}{
		{"nothing", Line{}, 2, []time.Duration{0, 0}},
		{"delay", Line{Delay: 5 * time.Millisecond}, 2, []time.Duration{5 * time.Millisecond, 5 * time.Millisecond}},
		{"rate", Line{Rate: 8e6}, 3, []time.Duration{time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond}},
		{"both", Line{Delay: time.Second, Rate: 8e6}, 2,
			[]time.Duration{time.Second + time.Millisecond, time.Second + 2*time.Millisecond}},
		{"a full queue", Line{Rate: 8e6, Queue: time.Millisecond}, 5,
			[]time.Duration{time.Millisecond, 2 * time.Millisecond}},
		{"loss of all", Line{Loss: 1}, 3, nil},
	} {
		l := line{Line: c.line, random: rand.New(rand.NewPCG(1, 1))}
		var got []time.Duration
		for range c.frames {
			if at, ok := l.pass(start, 1000); ok {
				got = append(got, at.Sub(start))
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
			continue
		}
		for i := range got {
			check.That(t, got[i] == c.want[i], "%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestSeedDecidesWhichFramesAreLost(t *testing.T) {
	lost := func(seed uint64) (mask uint64) {
		l := (&Network{seed: seed}).newLine(Line{Loss: 0.3})
		for i := range 64 {
			if _, ok := l.pass(time.Time{}, 1); !ok {
				mask |= 1 << i
			}
		}
		return mask
	}
	first := lost(1)
	again := lost(1)
	other := lost(2)
	check.That(t, first == again && first != other && first != 0, "%x, %x, %x", first, again, other)
}

func TestSegmentCountsWithTheHeadersOfItsPackets(t *testing.T) {
	const headers = 14 + 20 + 32
	segment := func(payload, packet int) []byte {
		data := make([]byte, headSize+headers+payload)
		data[1] = 1 // TCPv4
		binary.NativeEndian.PutUint16(data[4:], uint16(packet))
		binary.NativeEndian.PutUint16(data[6:], 14+20)
		data[headSize+14+20+12] = 8 << 4
		return data
	}
	for _, c := range []struct{ payload, packets int }{{1448, 1}, {1449, 2}, {2896, 2}, {64000, 45}} {
		want := c.payload + c.packets*headers
		got := wireSize(segment(c.payload, 1448))
		check.That(t, got == want, "%d bytes of data: %d on the wire, want %d", c.payload, got, want)
	}
	check.Equal(t, wireSize(make([]byte, headSize+60)), 60, "a short frame")
}

func TestScheduleKeepsFramesInOrder(t *testing.T) {
	start := time.Now()
	var s schedule
	for i, after := range []time.Duration{3, 1, 2, 1} {
		s.add(&frame{at: start.Add(after), number: uint64(i)})
	}
	if f := s.due(start); f != nil {
		t.Errorf("frame %d before its time", f.number)
	}
	for _, want := range []uint64{1, 3, 2, 0} {
		f := s.due(start.Add(time.Second))
		must.That(t, f != nil && f.number == want, "%+v, want frame %d", f, want)
	}
	check.That(t, s.due(start.Add(time.Hour)) == nil, "a frame too many")
}
