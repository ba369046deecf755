package settings

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

// placement holds the flags that place ranks on hosts and bind them to cores and GPUs.
type placement struct {
	Ppn            perHost
	MapBy          mapping
	RankBy         ranking
	Rankfile       string
	BindTo         binding
	CPUsPerRank    count
	CPUList        cpuList
	RankCPUs       rankCPUs
	GPUsPerRank    gpuCount
	ReportBindings bool
	NoLocal        bool
	SlotsByCores   bool // hosts without a number of slots have one per core
	rounds         bool // ranks are numbered by plan.ByRound unless the user says otherwise
}

// Binding returns the binding policy for the agents. Without --bind-to, ranks are bound to what
// they are mapped to or listed with, to cores with --cpus-per-rank, and else run on the NUMA node
// of their GPUs.
func (p *placement) Binding() launcher.Binding {
	b := p.BindTo.Binding
	b.Each = int(p.CPUsPerRank)
	b.Cores = string(p.CPUList)
	b.Number = p.RankBy.number
	switch b.Over = p.MapBy.over; {
	case p.RankCPUs != "":
		return launcher.Binding{CPUs: string(p.RankCPUs)}
	case p.Ppn.onCores():
		b.Over = p.Ppn.Unit
		b.Fill = p.Ppn.N
	}
	switch {
	case p.BindTo.Given && b.To == "":
		b = p.BindTo.Binding
		b.Each = int(p.CPUsPerRank)
		return b
	case p.BindTo.Given:
	case b.Each > 0:
		b.To = wire.BindCore
	case b.Over != "":
		b.To = b.Over
		b.Soft = true
	case b.Cores != "":
		b.To = wire.BindList
		b.Overload = true
	default:
		return launcher.Binding{Near: !p.GPUsPerRank.Leave}
	}
	if b.Number == wire.BindCore && b.Over == "" {
		b.Number = "" // ranks fill cores in order
	} else if b.Number != "" && b.Over == "" {
		b.Over = wire.BindCore
	}
	b.Near = !p.BindTo.Given && !p.GPUsPerRank.Leave && b.Over == "" && b.Cores == ""
	return b
}

// check returns an error for placements that no host can fulfil.
func (p *placement) check() error {
	switch b := p.BindTo; {
	case b.Given && b.To == "" && (b.Overload || b.IfSupported):
		return faultOf("bind-to", "write --bind-to core"+b.qualifiers(),
			"%s: there is nothing to bind to", b.String())
	case b.listed && p.CPUList == "":
		return faultOf("bind-to", "name the cores: --cpu-list 0-3", "%s needs --cpu-list", b.String())
	case p.RankCPUs != "" && (b.To != "" || p.CPUsPerRank > 0 || p.CPUList != "" || p.MapBy.over != "" ||
		p.Ppn.onCores()):
		return faultOf("rank-cpus", "leave one of them out",
			"names the hardware threads of every rank: "+
				"--bind-to, --cpus-per-rank, --cpu-list and mapping to parts of a host do not apply")
	case p.MapBy.over != "" && p.Ppn.onCores():
		return faultOf("map-by", "leave one of them out",
			"%s and --ppn %s say different things about the places of ranks", p.MapBy.String(), p.Ppn.String())
	case p.Rankfile != "" && (p.MapBy != mapping{} || p.RankBy != ranking{} || p.Ppn.N > 0 || p.RankCPUs != ""):
		return faultOf("rankfile", "leave one of them out",
			"places every rank: --map-by, --rank-by, --ppn and --rank-cpus do not apply")
	case p.MapBy.Sequence && (p.RankBy != ranking{} || p.Ppn.N > 0):
		return faultOf("map-by", "leave one of them out", "seq places every rank: --rank-by and --ppn do not apply")
	}
	return nil
}

// Request returns the request for a plan of np ranks.
func (o *Options) Request(np int) launcher.Request {
	rankBy := o.RankBy.Order
	switch {
	case rankBy != 0:
	case o.rounds && o.MapBy.Order != launcher.ByNode:
		rankBy = plan.ByRound
	case o.MapBy.over != "":
		rankBy = launcher.BySlot
	}
	return launcher.Request{
		NP:              np,
		NoOversubscribe: o.noOversubscribe,
		MapBy:           o.MapBy.Order,
		RankBy:          rankBy,
	}
}

// MappingText describes how ranks are mapped and numbered, or is "" without such flags.
func (o *Options) MappingText() string {
	switch {
	case o.Rankfile != "":
		return "by rankfile " + o.Rankfile
	case o.MapBy.Sequence:
		return "in the order of the hosts' list, a rank for each mention"
	case o.Ppn.Unit == UnitAuto:
		return "a rank for each core"
	case o.Ppn.Unit != "":
		return fmt.Sprintf("%s for each %s of a host", prose.Count(o.Ppn.N, "rank"), o.Ppn.Unit)
	case o.MapBy.Order == 0 && o.RankBy.Order == 0:
		return ""
	}
	by := cmp.Or(o.MapBy.String(), launcher.BySlot.String())
	return fmt.Sprintf("by %s, ranks numbered by %s", by, cmp.Or(o.RankBy.String(), by))
}

// binding is a binding policy such as core or socket:overload-allowed.
type binding struct {
	launcher.Binding
	Given  bool
	listed bool // bound to the cores of --cpu-list
}

func (b *binding) Type() string { return "policy" }

func (b *binding) String() string {
	if b.To == "" && !b.Given {
		return ""
	}
	if b.To == "" {
		return "none" + b.qualifiers()
	}
	return b.To + b.qualifiers()
}

func (b *binding) qualifiers() (text string) {
	if b.Overload && b.To != wire.BindList {
		text += ":overload-allowed"
	}
	if b.IfSupported {
		text += ":if-supported"
	}
	return text
}

func (b *binding) Set(text string) error {
	set := binding{Given: true}
	words := strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return c == ':' || c == ',' })
	if len(words) == 0 || strings.HasPrefix(text, ":") {
		return errBinding
	}
	switch words[0] {
	case "none":
	case "cpu-list":
		set.To = wire.BindList
		set.Overload = true
		set.listed = true
	default:
		if set.To = partOfHost(words[0]); set.To == "" {
			return errBinding
		}
	}
	for _, qualifier := range words[1:] {
		switch qualifier {
		case "overload-allowed", "overload":
			set.Overload = true
		case "if-supported":
			set.IfSupported = true
		case "ordered": // one core of the list each
			if set.listed {
				set.To = wire.BindCore
				set.Overload = false
			}
		default:
			return errQualifier
		}
	}
	*b = set
	return nil
}

var (
	errBinding   = errors.New("expected none, hwthread, core, l2cache, l3cache, numa, socket or cpu-list")
	errQualifier = errors.New("expected overload-allowed or if-supported after the colon")
)

// gpuCount is --gpus-per-rank: a number, auto or none.
type gpuCount struct {
	launcher.GPURequest
	Given bool
}

func (g *gpuCount) Type() string { return "N|auto|none" }

func (g *gpuCount) String() string {
	switch {
	case g.Leave:
		return "none"
	case g.PerRank > 0:
		return strconv.Itoa(g.PerRank)
	case g.Given:
		return "auto"
	}
	return ""
}

func (g *gpuCount) Set(text string) error {
	set := gpuCount{Given: true}
	switch strings.ToLower(text) {
	case "auto":
	case "none":
		set.Leave = true
	default:
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > hostfile.MaxSlots {
			return fmt.Errorf("expected auto, none or a whole number from 1 to %d", hostfile.MaxSlots)
		}
		set.PerRank = n
	}
	*g = set
	return nil
}
