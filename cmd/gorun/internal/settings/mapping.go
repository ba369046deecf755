package settings

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

// partOfHost returns the unit of binding that a word names, or "".
func partOfHost(word string) string {
	switch word {
	case "package":
		return wire.BindSocket
	case "l2", "l3":
		return word + "cache"
	case wire.BindThread, wire.BindCore, wire.BindL2, wire.BindL3, wire.BindNode, wire.BindSocket:
		return word
	}
	return ""
}

// mapping is --map-by: an order of hosts, or units of a host that its ranks are dealt to: host
// after host, or with :span on all hosts alike. In sequence, each mention of a host is the place of
// one rank.
type mapping struct {
	launcher.Order
	over     string
	Sequence bool
}

func (m *mapping) Type() string { return "order" }

func (m *mapping) String() string {
	if m.Order == 0 {
		return ""
	}
	switch {
	case m.Sequence:
		return "seq"
	case m.over != "" && m.Order == launcher.ByNode:
		return m.over + ":span"
	}
	return cmp.Or(m.over, m.Order.String())
}

func (m *mapping) Set(text string) error {
	word, span := strings.CutSuffix(strings.ToLower(text), ":span")
	switch over := partOfHost(word); {
	case span && over != "":
		*m = mapping{Order: launcher.ByNode, over: over}
	case word == "node":
		*m = mapping{Order: launcher.ByNode}
	case word == "slot":
		*m = mapping{Order: launcher.BySlot}
	case word == "seq":
		*m = mapping{Order: launcher.BySlot, Sequence: true}
	case over != "":
		*m = mapping{Order: launcher.BySlot, over: over}
	default:
		return errors.New("expected slot, node, seq, socket, numa, l3cache, l2cache, core or hwthread")
	}
	return nil
}

// ranking is --rank-by: an order of hosts, and the numbers of ranks on a host.
type ranking struct {
	launcher.Order
	number string
}

func (r *ranking) Type() string { return "order" }

func (r *ranking) String() string {
	if r.Order == 0 {
		return ""
	}
	return cmp.Or(r.number, r.Order.String())
}

func (r *ranking) Set(text string) error {
	word := strings.ToLower(text)
	switch number := partOfHost(word); {
	case word == "node":
		*r = ranking{Order: launcher.ByNode}
	case word == "slot":
		*r = ranking{Order: launcher.BySlot}
	case word == "round":
		*r = ranking{Order: plan.ByRound}
	case number != "":
		*r = ranking{launcher.BySlot, number}
	default:
		return errors.New("expected slot, node, round, core, socket, numa, l3cache or l2cache")
	}
	return nil
}

// Units of --ppn beside those of binding.
const (
	UnitAuto      = "auto"        // cores that ranks can keep busy
	UnitGPU       = "gpu"         // GPUs
	UnitGPUOrCore = "gpu-or-core" // GPUs, or cores on a host without
	UnitGPUOrOne  = "gpu-or-one"  // GPUs, or the host itself if it has none
)

// perHost is --ppn: N ranks on each host, or N for each of a host's units. The zero value is an
// absent flag.
type perHost struct {
	N    int
	Unit string // "": the host itself
}

func (p *perHost) Type() string { return "N[:UNIT]" }

func (p *perHost) String() string {
	switch {
	case p.N == 0:
		return ""
	case p.Unit == "":
		return strconv.Itoa(p.N)
	case p.Unit == UnitAuto:
		return UnitAuto
	}
	return strconv.Itoa(p.N) + ":" + p.Unit
}

func (p *perHost) Set(text string) error {
	word := strings.ToLower(text)
	if word == UnitAuto {
		*p = perHost{1, UnitAuto}
		return nil
	}
	number, unit, units := strings.Cut(word, ":")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > 1<<20 {
		return errors.New("expected a whole number N, N:UNIT or auto")
	}
	known := unit
	if !onGPUs(unit) {
		known = partOfHost(unit)
	}
	if units && known == "" {
		return errors.New("expected N:UNIT with socket, numa, l3cache, l2cache, core, hwthread or gpu, for example " +
			"2:socket")
	}
	*p = perHost{n, known}
	return nil
}

// onCores reports whether ranks are counted by a unit that they can be bound to.
func (p *perHost) onCores() bool {
	return p.Unit != "" && p.Unit != UnitAuto && !onGPUs(p.Unit)
}

// onGPUs reports whether a unit stands for the GPUs of a host.
func onGPUs(unit string) bool {
	return slices.Contains([]string{UnitGPU, UnitGPUOrCore, UnitGPUOrOne}, unit)
}

// cpuList is --cpu-list: cores such as 0-3,8, in order.
type cpuList string

func (c *cpuList) Type() string   { return "cores" }
func (c *cpuList) String() string { return string(*c) }

func (c *cpuList) Set(text string) error {
	text = strings.ReplaceAll(text, " ", "")
	if _, err := usage.ParseRanks(text); err != nil {
		return errors.New("expected cores such as 0-3,8")
	}
	*c = cpuList(text)
	return nil
}

// rankCPUs is --rank-cpus: the hardware threads of each local rank in turn.
type rankCPUs string

func (r *rankCPUs) Type() string   { return "cpus" }
func (r *rankCPUs) String() string { return string(*r) }

func (r *rankCPUs) Set(text string) error {
	for item := range strings.SplitSeq(text, ",") {
		if _, err := usage.ParseRanks(strings.ReplaceAll(item, "+", ",")); err != nil || strings.Contains(item, " ") {
			return errors.New("expected the hardware threads of each rank, such as 0-3,4-7 or 0+8,1+9")
		}
	}
	*r = rankCPUs(text)
	return nil
}
