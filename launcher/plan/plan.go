package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
)

// Request is what the user asks of a plan.
type Request struct {
	NP              int // ranks to start; 0: one per slot
	NoOversubscribe bool
	MapBy           Order // order of assignment to hosts; 0: BySlot
	RankBy          Order // order of numbering; 0: that of MapBy
}

// Plan is which rank runs on which host. Hosts keep their given order; those
// without ranks are omitted.
type Plan struct {
	Size     int
	Hosts    []Host
	Warnings []string // warnings for the user, one line each
}

// Rank and Program are the parts of messages that a plan assigns to hosts.
type (
	Rank    = wire.Rank
	Program = wire.Program
)

// Host is one host and its ranks, in ascending order.
type Host struct {
	hostfile.Host
	Ranks []Rank
	Spawn wire.Spawn // ranks that the host's ranks may spawn; no other host has them
}

// Has reports whether a rank is one of the host's, or may be spawned there.
func (h *Host) Has(rank int) bool { return h.Spawn.Has(rank) || h.Planned(rank) }

// Planned reports whether a rank is one that the job starts on the host.
func (h *Host) Planned(rank int) bool {
	_, found := slices.BinarySearchFunc(h.Ranks, rank, func(r Rank, rank int) int { return cmp.Compare(r.Rank, rank) })
	return found
}

// Numbers returns the ranks that the job starts on the host, ascending; nil: none.
func (h *Host) Numbers() (ranks []int) {
	for _, r := range h.Ranks {
		ranks = append(ranks, r.Rank)
	}
	return ranks
}

// RankList names the host's ranks: "rank 3", "ranks 0-3, 8".
func (h *Host) RankList() string {
	numbers := h.Numbers()
	noun := "ranks"
	if len(numbers) == 1 {
		noun = "rank"
	}
	return noun + " " + strings.ReplaceAll(prose.Ranges(numbers, 0), ",", ", ")
}

// SlotsError reports more ranks than slots although that was forbidden.
type SlotsError struct {
	NP, Slots, Hosts int
	MaxSlots         bool // the limit is the hosts' max_slots, which no flag lifts
}

func (e *SlotsError) Error() string {
	kind := "slot"
	have := "hosts have"
	if e.MaxSlots {
		kind = "max_slot"
	}
	if e.Hosts == 1 {
		have = "host has"
	}
	need := "need"
	if e.NP == 1 {
		need = "needs"
	}
	return fmt.Sprintf("%s %s %s, but the %s %d", prose.Count(e.NP, "rank"), need, prose.Count(e.NP, kind), have,
		e.Slots)
}

// Hint returns what to change.
func (e *SlotsError) Hint() string {
	if e.MaxSlots && e.Slots == 0 {
		return "add hosts, or raise max_slots"
	}
	if e.MaxSlots {
		return fmt.Sprintf("ask for at most -np %d, add hosts, or raise max_slots", e.Slots)
	}
	if e.Slots == 0 {
		return "add hosts, give these more slots (-H host:N), or leave out --no-oversubscribe"
	}
	return fmt.Sprintf("ask for at most -np %d, give the hosts more slots (-H host:N), or leave out --no-oversubscribe",
		e.Slots)
}

// MaxRanks bounds a job.
const MaxRanks = 1 << 20

// New deals ranks to hosts. Up to the number of slots, hosts are filled one after the other, or all
// side by side. Beyond it ranks wrap around the hosts, each host getting its slots once more per
// round, unless the request forbids that. It is pure.
func New(hosts []hostfile.Host, req Request) (Plan, error) {
	slots := 0
	for _, h := range hosts {
		slots += h.Slots
	}
	np := req.NP
	if np == 0 {
		np = slots
	}
	if len(hosts) == 0 {
		return Plan{}, errors.New("there is no host to run on")
	}
	if np < 1 || np > MaxRanks {
		return Plan{}, fmt.Errorf("%d ranks: a job has 1 to %d", np, MaxRanks)
	}
	if np > slots && req.NoOversubscribe {
		return Plan{}, &SlotsError{NP: np, Slots: slots, Hosts: len(hosts)}
	}
	mapBy, rankBy := req.orders()
	dealt := Deal(hosts, nil, np, mapBy)
	if len(dealt) < np {
		return Plan{}, &SlotsError{
			NP:       np,
			Slots:    len(dealt),
			Hosts:    len(hosts),
			MaxSlots: true,
		}
	}
	shares := make([]int, len(hosts))
	for _, i := range dealt {
		shares[i]++
	}
	plan := Plan{Size: np}
	for i, ranks := range number(hosts, shares, rankBy) {
		if len(ranks) > 0 {
			plan.Hosts = append(plan.Hosts, Host{Host: hosts[i], Ranks: ranks})
		}
	}
	setCross(plan.Hosts)
	if np > slots {
		plan.Warnings = append(plan.Warnings, plan.overfull(slots))
	}
	return plan, nil
}

// setCross numbers, for each local rank, the hosts that have it.
func setCross(hosts []Host) {
	var sizes []int
	for _, h := range hosts {
		for i := range h.Ranks {
			if i == len(sizes) {
				sizes = append(sizes, 0)
			}
			h.Ranks[i].CrossRank = sizes[i]
			sizes[i]++
		}
	}
	for _, h := range hosts {
		for i := range h.Ranks {
			h.Ranks[i].CrossSize = sizes[i]
		}
	}
}

// overfull warns that the plan's hosts have fewer slots than ranks.
func (p Plan) overfull(slots int) string {
	return fmt.Sprintf("%s on %s: more than one rank per slot (%s)", prose.Count(p.Size, "rank"),
		prose.Count(slots, "slot"), p.summary())
}

// summary returns a text such as "f1:4, f2:4", cut after a few hosts.
func (p Plan) summary() string {
	var parts []string
	for i, h := range p.Hosts {
		if i == 4 && len(p.Hosts) > 5 {
			parts = append(parts, fmt.Sprintf("and %d more hosts", len(p.Hosts)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s:%d", h.Name, len(h.Ranks)))
	}
	return strings.Join(parts, ", ")
}

// String shows the plan as --dry-run prints it.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s\n", prose.Count(p.Size, "rank"), prose.Count(len(p.Hosts), "host"))
	width := 0
	for _, h := range p.Hosts {
		width = max(width, len(h.Name))
	}
	for _, h := range p.Hosts {
		ranks := "free for spawned ranks"
		if len(h.Ranks) > 0 {
			ranks = h.RankList()
		}
		fmt.Fprintf(&b, "  %-*s  %s, %s\n", width, h.Name, prose.Count(h.Slots, "slot"), ranks)
	}
	return b.String()
}

// Host returns the host of a rank, or nil.
func (p Plan) Host(rank int) *Host {
	for i := range p.Hosts {
		if p.Hosts[i].Has(rank) {
			return &p.Hosts[i]
		}
	}
	return nil
}

// Numbers returns the ranks in order.
func (p Plan) Numbers() []int {
	all := make([]int, p.Size)
	for rank := range all {
		all[rank] = rank
	}
	return all
}

// Nodes returns the index of each rank's host, by rank.
func (p Plan) Nodes() []int {
	nodes := make([]int, p.Size)
	for i, h := range p.Hosts {
		for _, r := range h.Ranks {
			nodes[r.Rank] = i
		}
	}
	return nodes
}

// Names returns the hosts' names, in the order of [Plan.Nodes].
func (p Plan) Names() []string {
	names := make([]string, len(p.Hosts))
	for i, h := range p.Hosts {
		names[i] = h.Host.Name
	}
	return names
}

// GPUsError reports that a host lists fewer GPUs than its ranks need.
type GPUsError struct {
	Host                 string
	Ranks, PerRank, Have int
}

func (e *GPUsError) Error() string {
	return fmt.Sprintf("%s: %s with --gpus-per-rank %d, and the hostfile says gpus=%d", e.Host,
		prose.Count(e.Ranks, "rank"), e.PerRank, e.Have)
}

// Hint returns what to change.
func (e *GPUsError) Hint() string {
	if most := e.Have / e.PerRank; most > 0 {
		return fmt.Sprintf("give it slots=%d, or each rank fewer GPUs", most)
	}
	return fmt.Sprintf("give each rank %s at most, or correct gpus= in the hostfile", prose.Count(e.Have, "GPU"))
}

// ToolsOf returns those of tools, which are in the order of their ranks, that are for a host's
// ranks. It is pure.
func (h *Host) ToolsOf(tools []wire.Tool) (here []wire.Tool) {
	for _, r := range h.Ranks {
		if i, found := slices.BinarySearchFunc(tools, r.Rank, func(t wire.Tool, rank int) int {
			return cmp.Compare(t.Rank, rank)
		}); found {
			here = append(here, tools[i])
		}
	}
	return here
}

// CheckGPUs returns a *[GPUsError] if a host lists too few GPUs for its ranks. Hosts without a
// listed number check themselves. It is pure.
func (p Plan) CheckGPUs(perRank int) error {
	for _, h := range p.Hosts {
		if h.GPUs > 0 && perRank*len(h.Ranks) > h.GPUs {
			return &GPUsError{
				Host:    h.Name,
				Ranks:   len(h.Ranks),
				PerRank: perRank,
				Have:    h.GPUs,
			}
		}
	}
	return nil
}

// CheckPrograms reports whether the programs are for as many ranks as the plan has.
func (p Plan) CheckPrograms(programs []Program) error {
	sum := 0
	for _, n := range Shares(programs) {
		if n < 1 {
			return fmt.Errorf("a program is to be run by %d ranks", n)
		}
		sum += n
	}
	if sum != p.Size {
		return fmt.Errorf("the programs are for %s, and the plan is for %d", prose.Count(sum, "rank"), p.Size)
	}
	return nil
}
