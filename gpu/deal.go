package gpu

import (
	"fmt"
	"slices"
	"strings"
)

// Ask is what the ranks of a host are to get, and what is said there already.
type Ask struct {
	Ranks   int     // on this host
	PerRank int     // GPUs for each; 0: auto
	Listed  int     // how many the host is said to have, of which ranks may use no more; 0: it is not said
	Visible *string // CUDA_VISIBLE_DEVICES as ranks inherit it; nil: it is not set
	Order   string  // CUDA_DEVICE_ORDER as they inherit it
}

// byBus is the CUDA_DEVICE_ORDER under which Device.Index is CUDA's number.
const byBus = "PCI_BUS_ID"

// Dealt is who gets what.
type Dealt struct {
	Have   int     // GPUs and instances that ranks may use
	Shares []Share // by local rank; nil: ranks have nothing to do with GPUs
}

// Share is what a rank gets.
type Share struct {
	GPUs []string // for people: indices of GPUs, UUIDs of instances

	// Visible is the rank's CUDA_VISIBLE_DEVICES; "": what is there is left to the rank, which is expected to
	// use the device of its local rank.
	Visible string
	Order   string // its CUDA_DEVICE_ORDER; "": as it is there

	// Nodes are the NUMA nodes that it should run on; nil: any.
	Nodes []int

	// BusIDs are the PCI addresses of its GPUs; nil: it is not known which it will use.
	BusIDs []string
}

// Deal gives the ranks of a host its GPUs; devices are those that programs may open. It is pure. Its error is a
// *[FewError] or a *[ListedError].
//
// With a number for each, a rank sees those only: the nearest to each other, and neighbours in rank get neighbours. A
// CUDA_VISIBLE_DEVICES that is there is cut up as it is written.
//
// With auto, programs that take the device of their local rank must go on working: all ranks see all GPUs, and
// nothing is set. Where that cannot work ranks see one device each, in turns: where there are more ranks than GPUs, and
// where GPUs are partitioned, since CUDA shows a process one instance only. Ranks are sent to NUMA nodes if each has
// GPUs of its own: a number for each, or as many ranks as GPUs.
func Deal(devices []Device, ask Ask) (Dealt, error) {
	units := unitsOf(devices, ask.Visible)
	if ask.Listed > len(units) {
		return Dealt{}, &ListedError{Listed: ask.Listed, Have: len(units), Hidden: len(allUnits(devices)) - len(units)}
	}
	if ask.Listed > 0 {
		units = units[:ask.Listed]
	}
	d := Dealt{Have: len(units)}
	if ask.PerRank > 0 {
		return d, d.cut(devices, units, ask)
	}
	if d.Have == 0 {
		return d, nil
	}
	partitioned := slices.ContainsFunc(units, func(u unit) bool { return u.mig })
	dealing := d.Have > 1 && (ask.Ranks > d.Have || partitioned && ask.Ranks > 1)
	for local := range ask.Ranks {
		one := units[local%d.Have : local%d.Have+1]
		s := Share{GPUs: names(devices, one)}
		if dealing {
			s.Visible, s.Order = setting(devices, one, ask)
		}
		if ordered(devices, one, ask) {
			s.BusIDs = busIDs(devices, one)
			if ask.Ranks == d.Have {
				s.Nodes = nodes(devices, one)
			}
		}
		d.Shares = append(d.Shares, s)
	}
	return d, nil
}

// cut gives each rank its number of units.
func (d *Dealt) cut(devices []Device, units []unit, ask Ask) error {
	partitioned := slices.ContainsFunc(units, func(u unit) bool { return u.mig })
	if ask.Ranks > len(units)/ask.PerRank || partitioned && ask.PerRank > 1 {
		return &FewError{Ranks: ask.Ranks, PerRank: ask.PerRank, Have: len(units),
			Hidden: len(allUnits(devices)) - len(units), Partitioned: partitioned,
			Unnamed: slices.ContainsFunc(devices, func(d Device) bool { return d.MIGEnabled && len(d.MIG) == 0 })}
	}
	groups := make([][]unit, ask.Ranks)
	if ask.Visible == nil {
		groups = group(devices, units, ask.Ranks, ask.PerRank)
	} else {
		for i := range groups {
			groups[i] = units[i*ask.PerRank : (i+1)*ask.PerRank]
		}
	}
	for _, own := range groups {
		s := Share{GPUs: names(devices, own)}
		s.Visible, s.Order = setting(devices, own, ask)
		if s.Order == byBus || ordered(devices, own, ask) {
			s.Nodes, s.BusIDs = nodes(devices, own), busIDs(devices, own)
		}
		d.Shares = append(d.Shares, s)
	}
	return nil
}

// setting is what makes CUDA show these units and no others. Numbers mean what they mean in the list that ranks
// inherit; where there is none they are ours, by the PCI bus.
func setting(devices []Device, own []unit, ask Ask) (visible, order string) {
	var tokens []string
	numbers := false
	for _, u := range own {
		tokens = append(tokens, u.token)
		numbers = numbers || leadingNumber(u.token) >= 0
	}
	if ask.Visible == nil && numbers {
		order = byBus
	}
	return strings.Join(tokens, ","), order
}

// ordered reports whether it is known which GPUs the units are. Of unlike GPUs CUDA gives the fastest the number 0, unless
// it is told not to; names are always the same GPU's.
func ordered(devices []Device, units []unit, ask Ask) bool {
	alike := !slices.ContainsFunc(devices, func(d Device) bool { return d.Name != devices[0].Name })
	named := ask.Visible != nil && !slices.ContainsFunc(units, func(u unit) bool { return leadingNumber(u.token) >= 0 })
	return alike || named || ask.Order == byBus
}

// nodes are the NUMA nodes of units, nil if that of one is not known.
func nodes(devices []Device, units []unit) (nodes []int) {
	for _, u := range units {
		if u.device < 0 || devices[u.device].NUMANode < 0 {
			return nil
		}
		nodes = append(nodes, devices[u.device].NUMANode)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// busIDs are the PCI addresses of units, nil if that of one is not known.
func busIDs(devices []Device, units []unit) (ids []string) {
	for _, u := range units {
		if u.device < 0 {
			return nil
		}
		ids = append(ids, devices[u.device].BusID)
	}
	return ids
}

func names(devices []Device, units []unit) (names []string) {
	for _, u := range units {
		if u.mig || u.device < 0 {
			names = append(names, u.token)
		} else {
			names = append(names, fmt.Sprint(devices[u.device].Index))
		}
	}
	return names
}

// FewError says that there are fewer GPUs than the ranks of a host are to get.
type FewError struct {
	Ranks, PerRank, Have int
	Hidden               int  // GPUs that CUDA_VISIBLE_DEVICES or the hostfile leaves out
	Partitioned          bool // they are instances
	Unnamed              bool // a GPU is partitioned, and its instances are not known
}

func (e *FewError) Error() string {
	if e.Partitioned && e.PerRank > 1 {
		return fmt.Sprintf("a rank cannot have %d GPUs: they are partitioned (MIG), and CUDA gives a process one instance", e.PerRank)
	}
	who, all := count(e.Ranks, "rank")+" need", count(e.Ranks*e.PerRank, "GPU")
	switch {
	case e.Ranks == 1:
		who += "s"
	case e.PerRank > 1:
		who = fmt.Sprintf("%s, %d GPUs each, need", count(e.Ranks, "rank"), e.PerRank)
	}
	return fmt.Sprintf("%s %s, and there %s%s", who, all, are(e.Have), hidden(e.Hidden))
}

// Hint says what to write.
func (e *FewError) Hint() string {
	const share = "--gpus-per-rank auto, with which ranks may share GPUs"
	most, each := e.Have/e.PerRank, e.Have/e.Ranks
	switch {
	case e.Partitioned && e.PerRank > 1:
		return "say --gpus-per-rank 1"
	case e.Unnamed:
		return "put gorun-gpu beside the gorun that you start, which sends it to hosts whose GPUs are partitioned (MIG); what fails there gorun gpus says. Or name instances: -x CUDA_VISIBLE_DEVICES=MIG-...,MIG-..."
	case e.Have == 0:
		return "leave --gpus-per-rank out to run without GPUs"
	case most > 0 && each > 0:
		return fmt.Sprintf("give the host %s at most (-H host:%d), or say --gpus-per-rank %d", count(most, "rank"), most, each)
	case most > 0:
		return fmt.Sprintf("give the host %s at most (-H host:%d), or say %s", count(most, "rank"), most, share)
	case each > 0:
		return fmt.Sprintf("say --gpus-per-rank %d", each)
	}
	return "say " + share
}

// ListedError says that a host has fewer GPUs than the hostfile says.
type ListedError struct{ Listed, Have, Hidden int }

func (e *ListedError) Error() string {
	return fmt.Sprintf("the hostfile says gpus=%d, and there %s%s", e.Listed, are(e.Have), hidden(e.Hidden))
}

// Hint says what to write.
func (e *ListedError) Hint() string {
	return "correct gpus= in the hostfile, or say --gpus-per-rank none to leave GPUs alone"
}

func hidden(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(", besides %d that CUDA_VISIBLE_DEVICES or the hostfile leaves out", n)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func are(n int) string {
	if n == 0 {
		return "is none"
	}
	if n == 1 {
		return "is 1"
	}
	return fmt.Sprintf("are %d", n)
}
