package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
)

// Placements places the ranks that MPI programs start while their job runs, by MPI_Comm_spawn, and
// gives out their numbers. The ranks of one call form a world: to MPI they are ranks 0 to n-1 of n.
// To gorun they have numbers from the job's size on, of which each host has its own. Placements is
// not safe for concurrent use.
type Placements struct {
	hosts  []host
	places map[string]int // index of the first host of a name
	last   int            // number of the latest world
}

// host is the state of a host of the job.
type host struct {
	Host
	own   map[int]bool // running ranks of the job
	given int          // how many numbers were given out
	opens int          // how many worlds its ranks have spawned
	asks  int          // how many programs their requests have named
	runs  map[int]bool // running spawned ranks
	left  bool         // whether the host takes no more ranks
}

// NewPlacements returns the placements of a job that is about to start.
func NewPlacements(p Plan) *Placements {
	b := &Placements{places: map[string]int{}}
	for i, h := range p.Hosts {
		if _, known := b.places[h.Name]; !known {
			b.places[h.Name] = i
		}
		own := map[int]bool{}
		for _, r := range h.Ranks {
			own[r.Rank] = true
		}
		b.hosts = append(b.hosts, host{Host: h, own: own, runs: map[int]bool{}})
	}
	return b
}

// Bounds of a request.
const (
	maxPrograms = 4 << 10
	maxRanks    = 1 << 18
	// maxRequest bounds the bytes of a request. The world is that and two numbers for each rank, in
	// one message.
	maxRequest = wire.MaxControl / 2
)

// Open places the ranks that a rank of the host with an index asks for. The error says what the
// user can change.
func (b *Placements) Open(by int, r wire.SpawnRequest) (wire.World, error) {
	w := wire.World{
		ID:       r.ID,
		By:       r.By,
		Number:   b.last + 1,
		Programs: r.Programs,
		Given:    r.Given,
	}
	if len(r.Programs) == 0 || len(r.Programs) > maxPrograms {
		return w, fmt.Errorf("%d programs were named", len(r.Programs))
	}
	if text, err := json.Marshal(r); err != nil || len(text) > maxRequest {
		return w, fmt.Errorf("the request has %d bytes, and may have %d", len(text), maxRequest)
	}
	if b.hosts[by].Spawn.Most == 0 {
		return w, errors.New("this job may spawn none (--max-spawn)")
	}
	if h := b.hosts[by]; h.left {
		return w, fmt.Errorf("all ranks of %s have ended", h.Name)
	}
	if h := b.hosts[by]; h.asks+len(r.Programs) > maxAsked {
		return w, fmt.Errorf("ranks of %s have named %d programs to spawn in this job, and may name %d", h.Name, h.asks,
			maxAsked)
	}
	b.hosts[by].asks += len(r.Programs)
	if h := b.hosts[by]; h.opens >= max(maxWorlds, h.Spawn.Most) {
		return w, fmt.Errorf("ranks of %s have spawned others %d times in this job, and may not more often", h.Name,
			h.opens)
	}
	more := make([]int, len(b.hosts)) // ranks of this request on each host
	var everywhere offer              // to programs that name no host, listed once for thousands of them
	for _, p := range r.Programs {
		if len(p.Argv) == 0 || p.Ranks < 1 || p.Ranks > maxRanks-len(w.HostOf) {
			return w, fmt.Errorf("a program is for %d ranks", p.Ranks)
		}
		to := everywhere
		if p.Host != "" || to.rooms == nil {
			rooms, err := b.rooms(by, p.Host)
			if err != nil {
				return w, err
			}
			to = b.offer(rooms)
		}
		if p.Host == "" {
			everywhere = to
		}
		placed, err := b.place(to, more, p.Ranks)
		if err != nil {
			return w, err
		}
		w.HostOf = append(w.HostOf, placed...)
	}
	for i, n := range more {
		if h := b.hosts[i]; h.given+n > h.Spawn.Total {
			return w, fmt.Errorf("%d ranks were spawned on %s in this job, and %d can be", h.given, h.Name,
				h.Spawn.Total)
		}
	}
	for _, i := range w.HostOf {
		h := &b.hosts[i]
		number := h.Spawn.First + h.given*h.Spawn.Step
		h.given++
		h.runs[number] = true
		w.Numbers = append(w.Numbers, number)
	}
	b.last++
	b.hosts[by].opens++
	return w, nil
}

// room is a host on which a program may run, by index, and its slots.
type room struct{ host, slots int }

// rooms lists the hosts on which a program may run: those that it names, else all, beginning with
// that of the rank that asks. A hostile host may name millions: each takes little time.
func (b *Placements) rooms(by int, names string) (all []room, err error) {
	if names == "" {
		for i := range b.hosts {
			at := (by + i) % len(b.hosts)
			if b.takes(by, at) {
				all = append(all, room{at, b.hosts[at].Slots})
			}
		}
		return all, nil
	}
	known := map[int]int{} // index in all, by host
	for entry := range strings.SplitSeq(names, ",") {
		name, number, counted := strings.Cut(strings.TrimSpace(entry), ":")
		at, is := b.places[name]
		if name == "localhost" {
			at = by
			is = true
		}
		if !is || !b.takes(by, at) {
			return nil, fmt.Errorf("they may run on %s, and MPI_Info names %s%s", b.open(by), prose.Printable(name),
				b.remedy(by))
		}
		r := room{at, b.hosts[at].Slots}
		if counted {
			if r.slots, err = strconv.Atoi(number); err != nil || r.slots < 1 {
				return nil, fmt.Errorf("MPI_Info names the host %q: write name:SLOTS", prose.Printable(entry))
			}
		}
		if i, twice := known[at]; twice {
			all[i].slots = max(all[i].slots, r.slots)
			continue
		}
		known[at] = len(all)
		all = append(all, r)
	}
	return all, nil
}

// takes reports whether ranks of the host by may start others on the host at.
func (b *Placements) takes(by, at int) bool {
	return !b.hosts[at].left && (at == by || b.hosts[by].Spawn.Anywhere)
}

// maxNames bounds the hosts that an error names.
const maxNames = 8

// open names the hosts on which ranks of the host by may start others.
func (b *Placements) open(by int) string {
	var names []string
	more := 0
	for at, h := range b.hosts {
		switch {
		case !b.takes(by, at):
		case len(names) < maxNames:
			names = append(names, h.Name)
		default:
			more++
		}
	}
	if more > 0 {
		names = append(names, prose.Count(more, "other"))
	}
	return prose.And(names)
}

func (b *Placements) remedy(by int) string {
	if b.hosts[by].Spawn.Anywhere {
		return ""
	}
	return "; with --max-spawn N they may on all hosts"
}

// offer is rooms, and how a hostfile lists them.
type offer struct {
	rooms   []room
	entries []hostfile.Host
}

func (b *Placements) offer(rooms []room) offer {
	entries := make([]hostfile.Host, len(rooms))
	for i, r := range rooms {
		h := &b.hosts[r.host]
		entries[i] = hostfile.Host{Slots: r.slots, MaxSlots: len(h.own) + h.Spawn.Most}
	}
	return offer{rooms, entries}
}

// place takes n ranks to hosts, up to the spawned ranks that each may have. It counts them in more.
func (b *Placements) place(to offer, more []int, n int) (hosts []int, err error) {
	taken := make([]int, len(to.rooms))
	for i, r := range to.rooms {
		h := &b.hosts[r.host]
		taken[i] = len(h.own) + len(h.runs) + more[r.host]
	}
	for _, i := range Deal(to.entries, taken, n, BySlot) {
		hosts = append(hosts, to.rooms[i].host)
		more[to.rooms[i].host]++
	}
	if len(hosts) < n {
		return nil, fmt.Errorf("%d of %d find room: --max-spawn allows %d spawned ranks at a time on a host",
			len(hosts), n, b.hosts[0].Spawn.Most)
	}
	return hosts, nil
}

// Ended records that a rank of the host with an index has ended. It reports whether no rank of the
// job runs any more.
func (b *Placements) Ended(at, rank int) (over bool) {
	h := &b.hosts[at]
	delete(h.own, rank)
	delete(h.runs, rank)
	if len(h.own)+len(h.runs) == 0 && len(h.Ranks) > 0 {
		h.left = true // the host's agent ends
	}
	for _, h := range b.hosts {
		if len(h.own)+len(h.runs) > 0 {
			return false
		}
	}
	return true
}

// Left records that a host has ended. It returns a rank that was to be spawned there, and was not,
// or -1.
func (b *Placements) Left(at int) int {
	h := &b.hosts[at]
	h.left = true
	for rank := range h.runs {
		return rank
	}
	return -1
}
