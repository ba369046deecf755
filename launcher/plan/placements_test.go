package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// placementsOf returns those of a job with two ranks on a and one on b, while c has none.
func placementsOf(t *testing.T, most int) *Placements {
	t.Helper()
	hosts := []hostfile.Host{{Name: "a", Slots: 2}, {Name: "b", Slots: 2}, {Name: "c", Slots: 1}}
	p := must.Get(New(hosts, Request{NP: 3}))(t)
	return NewPlacements(p.WithIdle(hosts).WithSpawn(most, 0).Anywhere())
}

func request(host string, ranks ...int) wire.SpawnRequest {
	r := wire.SpawnRequest{ID: 5, By: 0}
	for _, n := range ranks {
		r.Programs = append(r.Programs, wire.SpawnProgram{Argv: wire.Texts{"a"}, Host: host, Ranks: n})
	}
	return r
}

func TestPlaces(t *testing.T) {
	for name, tt := range map[string]struct {
		by    int
		r     wire.SpawnRequest
		hosts []int
	}{
		"free slots first":              {0, request("", 2), []int{1, 2}},
		"then all slots once more":      {0, request("", 2, 3), []int{1, 2, 0, 0, 1}},
		"beginning with the asker's":    {2, request("", 3), []int{2, 1, 2}},
		"where the program says":        {0, request("c", 2), []int{2, 2}},
		"several hosts, with slots":     {0, request("c:3, b:1", 4), []int{2, 2, 2, 2}},
		"this host by the general name": {1, request("localhost", 1), []int{1}},
	} {
		w, err := placementsOf(t, 9).Open(tt.by, tt.r)
		check.That(t, err == nil && slices.Equal(w.HostOf, tt.hosts),
			"%s: %v, %v, want %v", name, w.HostOf, err, tt.hosts)
	}
}

// Without the user's word, a host cannot start programs on another.
func TestHostsSpawnForThemselves(t *testing.T) {
	hosts := []hostfile.Host{{Name: "a", Slots: 1}, {Name: "b", Slots: 3}}
	p := must.Get(New(hosts, Request{NP: 2}))(t)
	b := NewPlacements(p.WithSpawn(9, 0))
	w, err := b.Open(0, request("", 3))
	check.That(t, err == nil && slices.Equal(w.HostOf, []int{0, 0, 0}), "%v, %v", w.HostOf, err)
	w, err = b.Open(0, request("b", 1))
	check.That(t, err != nil && strings.Contains(err.Error(),
		"they may run on a, and MPI_Info names b; with --max-spawn N they may on all hosts"), "%v, %v", w.HostOf, err)
}

// The agents of all hosts keep each world until the job ends: a hostile host could fill their
// memory by ranks that end at once.
func TestWorldsOfAHostAreBounded(t *testing.T) {
	b := placementsOf(t, 2)
	for range maxWorlds {
		w := must.Get(b.Open(0, request("a", 1)))(t)
		b.Ended(0, w.Numbers[0])
	}
	check.Error(b.Open(0, request("a", 1))).Says(t, "ranks of a have spawned others 4096 times in this job",
		"without end")
	_, err := b.Open(1, request("b", 1))
	check.OK(t, err, "another host's ranks")
}

// Requests that are refused for their last program count too, however many programs they name.
func TestRefusedRequestsAreBounded(t *testing.T) {
	for _, programs := range []int{1, maxPrograms} {
		b := placementsOf(t, 2)
		r := request("a", slices.Repeat([]int{1}, programs)...)
		r.Programs[programs-1].Ranks = 0
		n := 0
		for ; n < maxAsked/programs; n++ {
			_, err := b.Open(0, r)
			must.That(t, err != nil && !strings.Contains(err.Error(), "may name"), "request %d of %d programs: %v", n,
				programs, err)
		}
		check.Error(b.Open(0, r)).Says(t, "ranks of a have named 65536 programs to spawn in this job", programs)
		_, err := b.Open(1, request("b", 1))
		check.OK(t, err, "another host's ranks")
	}
}

// A host that names hosts again and again takes up no more of the launcher's time in a large job.
func TestNamedHostsTakeLittleTime(t *testing.T) {
	const names = 20000
	took := func(size int) (least time.Duration) {
		var hosts []hostfile.Host
		for i := range size {
			hosts = append(hosts, hostfile.Host{Name: fmt.Sprint("f", i), Slots: 1})
		}
		p := must.Get(New(hosts, Request{NP: size}))(t)
		b := NewPlacements(p.WithSpawn(9, 0).Anywhere())
		last := fmt.Sprint("f", size-1)
		list := strings.Repeat(last+",", names) + last
		for range 5 {
			began := time.Now()
			all := must.Get(b.rooms(0, list))(t)
			check.Equal(t, len(all), 1)
			if now := time.Since(began); least == 0 || now < least {
				least = now
			}
		}
		return least
	}
	few := took(10)
	many := took(10000)
	check.That(t, many < 50*few, "%v among 10 hosts, %v among 10000", few, many)
}

// A hostile host may ask when its ranks have ended, for what it may not have besides.
func TestHostWithoutRanksSpawnsNothing(t *testing.T) {
	hosts := []hostfile.Host{{Name: "a", Slots: 1}, {Name: "b", Slots: 1}}
	p := must.Get(New(hosts, Request{NP: 2}))(t).WithSpawn(9, 0)
	for name, p := range map[string]Plan{"own host": p, "all hosts": p.Anywhere()} {
		b := NewPlacements(p)
		b.Ended(1, 1)
		for _, host := range []string{"", "a", "b", "c"} {
			check.Error(b.Open(1, request(host, 1))).Says(t, "all ranks of b have ended", name, host)
		}
	}
}

func TestNumbersAreAHostsAndNeverUsedAgain(t *testing.T) {
	b := placementsOf(t, 2)
	w, err := b.Open(0, request("a", 1, 1))
	must.That(t, err == nil && slices.Equal(w.Numbers, []int{3, 6}) && w.Number == 1 && w.ID == 5, "%+v, %v", w, err)
	check.Error(b.Open(0, request("a", 1))).Says(t, "--max-spawn allows 2", "beyond the limit")
	check.That(t, !b.Ended(0, 3), "the job is over while ranks run")
	if w, err := b.Open(0, request("a", 1)); err != nil || !slices.Equal(w.Numbers, []int{9}) || w.Number != 2 {
		t.Errorf("after an end: %+v, %v", w, err)
	}
	for _, rank := range []int{0, 1, 6, 9} {
		b.Ended(0, rank)
	}
	check.Error(b.Open(1, request("a", 1))).Says(t, "they may run on b and c, and MPI_Info names a",
		"a host whose ranks have ended")
	if w, err = b.Open(2, request("c", 1)); err != nil || b.Left(1) >= 0 || b.Left(2) != w.Numbers[0] {
		t.Errorf("a rank that its host did not start is not found: %+v, %v", w, err)
	}
	check.That(t, !b.Ended(1, 2) && b.Ended(2, w.Numbers[0]), "the job is not over just when no rank runs")
}

func TestRefusedRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		most int
		r    wire.SpawnRequest
		want string
	}{
		"none may":       {0, request("", 1), "--max-spawn"},
		"no program":     {9, request(""), "0 programs"},
		"no rank":        {9, request("", 2, -1), "for -1 ranks"},
		"another host":   {9, request("d", 1), "they may run on a, b and c, and MPI_Info names d"},
		"too many":       {2, request("", 7), "6 of 7 find room"},
		"a host twice":   {2, request("c, c", 3), "2 of 3 find room"},
		"no such slots":  {9, request("a:x", 1), "write name:SLOTS"},
		"far too many":   {9, request("", 1<<30), "for 1073741824 ranks"},
		"name to escape": {9, request("\x1b[31m", 1), "MPI_Info names"},
	} {
		_, err := placementsOf(t, tt.most).Open(0, tt.r)
		check.That(t, err != nil && strings.Contains(err.Error(), tt.want) && !strings.Contains(err.Error(), "\x1b"),
			"%s: %v, want %q", name, err, tt.want)
	}
}

// A request whose world is too long for one message is refused: its hosts would not start the
// ranks, and be blamed for that.
func TestWorldsFitAMessage(t *testing.T) {
	var b *Placements
	open := func(r wire.SpawnRequest) (length int, err error) {
		b = placementsOf(t, maxRanks)
		b.hosts[0].Spawn.Total = maxRanks
		w, err := b.Open(0, r)
		return len(must.Get(json.Marshal(w))(t)), err
	}
	long := request("a", maxRanks)
	_, err := open(request("a", maxRanks+1))
	check.Error(err).Any(t, "more ranks than fit")
	long.Programs[0].Argv = wire.Texts{strings.Repeat("x", maxRequest)}
	_, err = open(long)
	check.Error(err).Says(t, "the request has")
	long.Programs[0].Argv = wire.Texts{strings.Repeat("x", maxRequest*3/4-1000)}
	length, err := open(long)
	check.That(t, err == nil && length < wire.MaxControl, "%d bytes, %v", length, err)
}
