package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/launcher"
)

// placement holds the flags that place ranks on hosts and bind them to cores and GPUs.
type placement struct {
	MapBy, RankBy  order
	BindTo         binding
	CPUsPerRank    count
	GPUsPerRank    gpuCount
	ReportBindings bool
}

func (p *placement) addFlags(flags *pflag.FlagSet) {
	flags.Var(&p.MapBy, "map-by", "assign ranks to hosts by slot (fill a host, then the next) or by node (round-robin) (default slot)")
	flags.Var(&p.RankBy, "rank-by", "number ranks by slot (host by host) or by node (round-robin) (default: as --map-by)")
	flags.Var(&p.BindTo, "bind-to", "bind ranks to: none, hwthread, core, numa or socket, with :overload-allowed or :if-supported (default none)")
	flags.Var(&p.CPUsPerRank, "cpus-per-rank", "cores for each rank; binds to cores unless --bind-to is given")
	flags.Var(&p.GPUsPerRank, "gpus-per-rank", "number of GPUs visible to each rank, or auto (all, or one in turn if ranks outnumber GPUs), or none (do not assign GPUs) (default auto)")
	flags.BoolVar(&p.ReportBindings, "report-bindings", false, "print what each rank is bound to")
}

// Binding returns the binding policy for the agents. --cpus-per-rank alone binds to cores. Without --bind-to, ranks
// run on the NUMA node of their GPUs.
func (p *placement) Binding() launcher.Binding {
	b := p.BindTo.Binding
	b.Each = int(p.CPUsPerRank)
	if !p.BindTo.Given && b.Each > 0 {
		b.To = launcher.BindCore
	}
	b.Near = !p.BindTo.Given && !p.GPUsPerRank.Leave
	return b
}

// check reports a binding that no host can fulfil.
func (p *placement) check() error {
	if b := p.BindTo; b.Given && b.To == "" && (b.Overload || b.IfSupported) {
		return usage.Errorf("write --bind-to core"+b.qualifiers(), "--bind-to %s: there is nothing to bind to", b.String())
	}
	return nil
}

// Request returns the request for a plan of np ranks.
func (o *Options) Request(np int) launcher.Request {
	return launcher.Request{NP: np, NoOversubscribe: o.noOversubscribe, MapBy: o.MapBy.Order, RankBy: o.RankBy.Order}
}

// order is slot or node.
type order struct{ launcher.Order }

func (o *order) Type() string { return "order" }

func (o *order) String() string {
	if o.Order == 0 {
		return ""
	}
	return o.Order.String()
}

func (o *order) Set(text string) error {
	switch strings.ToLower(text) {
	case "slot":
		o.Order = launcher.BySlot
	case "node":
		o.Order = launcher.ByNode
	default:
		return errors.New("expected slot or node")
	}
	return nil
}

// binding is a binding policy such as core or socket:overload-allowed.
type binding struct {
	launcher.Binding
	Given bool
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
	if b.Overload {
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
	case "hwthread", "core", "numa", "socket":
		set.To = words[0]
	case "package":
		set.To = launcher.BindSocket
	default:
		return errBinding
	}
	for _, qualifier := range words[1:] {
		switch qualifier {
		case "overload-allowed", "overload":
			set.Overload = true
		case "if-supported":
			set.IfSupported = true
		default:
			return errQualifier
		}
	}
	*b = set
	return nil
}

var (
	errBinding   = errors.New("expected none, hwthread, core, numa or socket")
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
