package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// host is an agent without readings.
type host struct {
	index  int
	name   string
	ranks  []int
	places []wire.Placement
	now    int // the number of its ranks
	spare  bool
}

func (h *host) Index() int                   { return h.index }
func (h *host) Host() string                 { return h.name }
func (h *host) Began(rank int) bool          { return slices.Contains(h.ranks, rank) }
func (h *host) RankNow(int) int              { return h.now }
func (h *host) Spare() bool                  { return h.spare }
func (h *host) Placements() []wire.Placement { return h.places }

func (h *host) Readings(context.Context, time.Duration, func(data []byte) error) error { return nil }

func text(readings ...wire.Reading) (b []byte) {
	for _, r := range readings {
		line, _ := json.Marshal(r)
		b = append(append(b, line...), '\n')
	}
	return b
}

func TestReadingsArriveInPieces(t *testing.T) {
	all := text(wire.Reading{Rank: &wire.RankUse{Rank: 1, State: "R\x1b[2J"}},
		wire.Reading{At: 5, Host: &wire.HostUse{CPUs: 2}},
		wire.Reading{At: 6, Host: &wire.HostUse{CPUs: 3}})
	for size := 1; size < len(all); size += 7 {
		var got []*reading
		p := parser{began: func(rank int) bool { return rank == 1 }}
		for at := 0; at < len(all); at += size {
			must.OK(t, p.add(all[at:min(len(all), at+size)], func(r *reading) { got = append(got, r) }))
		}
		if len(got) != 2 || got[0].at != 5 || got[0].host.CPUs != 2 || got[0].ranks[1].State != "R?[2J" &&
			strings.Contains(got[0].ranks[1].State, "\x1b") || len(got[1].ranks) != 0 {
			t.Fatalf("pieces of %d: %+v", size, got)
		}
	}
}

func TestReadingsOfAHostAreValidated(t *testing.T) {
	for name, data := range map[string][]byte{
		"no JSON":         []byte("{\n"),
		"another's rank":  text(wire.Reading{Rank: &wire.RankUse{Rank: 2}}),
		"a long line":     bytes.Repeat([]byte("x"), wire.MaxReading+1),
		"a negative rank": text(wire.Reading{Rank: &wire.RankUse{Rank: -1}}),
	} {
		p := parser{began: func(rank int) bool { return rank == 1 }}
		check.Error(p.add(data, func(*reading) {})).Any(t, name, "is taken")
	}
}

// A host may spawn tens of thousands of ranks and tell of each of them.
func TestTextsOfReadingsAreShort(t *testing.T) {
	p := parser{began: func(rank int) bool { return true }}
	long := strings.Repeat("x", 4000)
	check.OK(t, p.add(text(wire.Reading{Rank: &wire.RankUse{State: long, Waits: long}}), nil))
	use := p.now.ranks[0]
	check.Equal(t, len(use.State), maxText)
	check.Equal(t, len(use.Waits), maxText)
}

// A host that names a GPU again and again has one: metrics would have two series of one name.
func TestEachGPUCountsOnce(t *testing.T) {
	var said wire.HostUse
	for n := range 200 {
		said.GPUs = append(said.GPUs, wire.GPUUse{Index: n % 2, Used: int64(n)})
	}
	p := parser{began: func(int) bool { return true }}
	var got []wire.GPUUse
	check.OK(t, p.add(text(wire.Reading{Host: &said}), func(r *reading) { got = r.host.GPUs }))
	check.That(t, len(got) == 2 && got[0].Index == 0 && got[1].Index == 1 && got[1].Used == 1, "%+v", got)
}

// A host that tells without end of ranks that were spawned and have ended makes no long samples.
func TestSpawnedRanksThatHaveEndedAreNotTold(t *testing.T) {
	w := New(nil, 1, []Place{{"f1", []int{0}}})
	one := newFeed(&host{name: "f1", ranks: []int{0, 1, 2}, now: 2})
	one.last = &reading{came: time.Now(), ranks: map[int]wire.RankUse{1: {Rank: 1}, 2: {Rank: 2}}}
	f := &follower{watch: w, feeds: map[Agent]*feed{one.agent: one}}
	w.Exited(1, Exit{})
	told := f.sample().Ranks
	check.That(t, len(told) == 2 && told[1].Rank == 2 && told[1].Spawned, "%+v", told)
}

func TestRates(t *testing.T) {
	w := New(nil, 3, []Place{{"f1", []int{0, 1}}, {"f2", []int{2}}})
	w.Exited(1, Exit{Code: 3})
	f := &follower{watch: w, feeds: map[Agent]*feed{}}
	s := &host{name: "f1", ranks: []int{0, 1}, places: []wire.Placement{{Rank: 0, GPUs: []string{"1", "GPU-c"}}}}
	one := newFeed(s)
	use := func(cpu time.Duration, read int64) map[int]wire.RankUse {
		return map[int]wire.RankUse{0: {Rank: 0, PID: 7, State: "R", CPU: cpu, Read: read, Memory: 100, Threads: 4}}
	}
	gpus := []wire.GPUUse{{Index: 0, Busy: 5}, {Index: 1, Busy: 80, Used: 10},
		{Index: 2, UUID: "GPU-c", Busy: 100, Used: 20}}
	one.prev = &reading{at: time.Second, ranks: use(time.Second, 1000), host: wire.HostUse{Busy: time.Second, Sent: 50}}
	one.last = &reading{
		at:    3 * time.Second,
		came:  time.Now(),
		ranks: use(4*time.Second, 500),
		host: wire.HostUse{
			CPUs:      8,
			Busy:      5 * time.Second,
			Memory:    9,
			Available: 4,
			Sent:      250,
			GPUs:      gpus,
		},
	}
	f.feeds[s] = one
	f.output.fill(w.rows(), &w.lines, time.Now().Add(-time.Second))
	w.Output(0, []byte("a\nb\nc"))
	got := f.sample()
	r := got.Ranks[0]
	check.That(t, r.CPU == 1.5 && r.CPUTotal == 4 && r.Read == 0 && r.ReadTotal == 500 && r.Memory == 100 &&
		r.State == "R" && reflect.DeepEqual(r.GPUs, []int{1, 2}) && *r.GPUBusy == 90 && *r.GPUMemory == 30,
		"%+v", r)
	check.That(t, r.LinesTotal == 2 && r.OutputTotal == 5 && r.Lines >= 1 && r.Lines <= 2.1,
		"%d lines, %v/s", r.LinesTotal, r.Lines)
	r = got.Ranks[1]
	check.That(t, r.State == Ended && r.Exit.Code == 3, "%+v", r)
	r = got.Ranks[2]
	check.That(t, r.State == Waiting && r.Host == "f2", "%+v", r)
	if h := got.Hosts[0]; h.CPU != 2 || h.Used != 5 || h.Sent != 100 || len(h.GPUs) != 3 || got.Hosts[1].Age != -1 {
		t.Errorf("%+v", got.Hosts)
	}
	join := func(r *reading, calls, bytes int64, in, pending time.Duration) {
		u := r.ranks[0]
		u.Ring = &wire.RingUse{
			Calls:   calls,
			Bytes:   bytes,
			Time:    in,
			Pending: pending,
		}
		r.ranks[0] = u
	}
	check.That(t, got.Ranks[0].Ring == nil, "%+v", got.Ranks[0].Ring)
	join(one.last, 10, 100, time.Second, 0)
	if got := f.sample().Ranks[0].Ring; *got != (Ring{CallsTotal: 10, BytesTotal: 100, TimeTotal: 1}) {
		t.Errorf("the first reading of a record: %+v", got)
	}
	join(one.prev, 4, 40, 500*time.Millisecond, 0)
	join(one.last, 10, 100, time.Second, 1500*time.Millisecond)
	if got := f.sample().Ranks[0].Ring; *got != (Ring{
		Calls:        3,
		Bytes:        30,
		Share:        .75,
		CallsTotal:   10,
		BytesTotal:   100,
		TimeTotal:    1,
		PendingTotal: 1.5,
	}) {
		t.Errorf("%+v", got)
	}
	join(one.last, 10, 100, 5*time.Second, 0)
	ring := f.sample().Ranks[0].Ring
	check.That(t, ring.Share == 1, "communicators that are used together: %+v", ring)
	one.last.ranks[0] = wire.RankUse{Rank: 0, PID: 8, CPU: time.Hour} // another process has no rate yet
	if r := f.sample().Ranks[0]; r.CPU != 0 {
		t.Errorf("%+v", r)
	}
}

// Ranks of an elastic job have the numbers that they have now.
func TestElasticRanks(t *testing.T) {
	w := New(nil, 2, nil)
	f := &follower{watch: w, feeds: map[Agent]*feed{}}
	for i, now := range []int{1, 0} {
		s := &host{
			index: i,
			name:  "f1",
			ranks: []int{0},
			now:   now,
		}
		one := newFeed(s)
		one.last = &reading{at: 1, ranks: map[int]wire.RankUse{0: {PID: 10 + i, State: "S"}}}
		f.feeds[s] = one
	}
	got := f.sample()
	check.That(t, len(got.Ranks) == 2 && got.Ranks[0].PID == 11 && got.Ranks[1].PID == 10 &&
		got.Ranks[1].Rank == 1 && len(got.Hosts) == 1,
		"%+v", got)
}

// Ranks that were spawned are known from those that were launched, which others wait for.
func TestSpawnedRanksAreKnown(t *testing.T) {
	w := New(nil, 1, []Place{{"f1", []int{0}}})
	f := &follower{watch: w, feeds: map[Agent]*feed{}}
	s := &host{name: "f1", ranks: []int{0, 1}, now: 1}
	one := newFeed(s)
	one.last = &reading{at: 1, ranks: map[int]wire.RankUse{0: {PID: 10}, 1: {PID: 11}, 2: {PID: 12}}}
	f.feeds[s] = one
	got := f.sample().Ranks
	check.That(t, len(got) == 2 && !got[0].Spawned && got[1].Spawned && got[1].PID == 11, "%+v", got)
}

func TestOutputIsCountedFromTheStart(t *testing.T) {
	w := New(nil, 1, nil)
	w.Output(0, []byte("a\n"))
	check.Equal(t, w.lines.of(0), (count{1, 2}))
	if n := testing.AllocsPerRun(100, func() { w.Output(0, []byte("a\n")) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestFollowEndsWithTheJob(t *testing.T) {
	w := New(func() []Agent { return nil }, 1, []Place{{"f1", []int{0}}})
	samples := 0
	err := w.Follow(t.Context(), func(time.Duration) time.Duration { return time.Hour }, func(s Sample) error {
		if samples++; samples == 1 {
			w.Exited(0, Exit{Signal: 9})
			w.Close()
			w.Close()
		} else if s.Ranks[0].State != Ended {
			t.Errorf("%+v", s.Ranks)
		}
		return nil
	})
	check.That(t, err == nil && samples == 2, "%d samples, %v", samples, err)
	bad := fmt.Errorf("the reader has gone")
	if got := w.Follow(t.Context(), func(time.Duration) time.Duration { return time.Hour }, func(Sample) error {
		return bad
	}); got != bad {
		t.Errorf("%v", got)
	}
}

func FuzzReadings(f *testing.F) {
	f.Add(text(wire.Reading{Rank: &wire.RankUse{Rank: 1}}, wire.Reading{Host: &wire.HostUse{}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := parser{began: func(rank int) bool { return rank == 1 }}
		_ = p.add(data, func(r *reading) {
			one := newFeed(&host{name: "f1", ranks: []int{1}})
			one.prev = r
			one.last = r
			sample := Sample{Ranks: []Rank{{Rank: 1}}}
			sample.add(one, time.Now(), false, func(int) bool { return false })
			_, err := json.Marshal(sample)
			check.OK(t, err)
		})
		check.That(t, len(p.text) <= wire.MaxReading+len(data), "unbounded")
	})
}
