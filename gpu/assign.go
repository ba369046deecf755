package gpu

import (
	"fmt"
	"slices"
	"strings"
)

// Request is what the ranks of a host ask for, and what their environment says already.
type Request struct {
	Ranks   int     // ranks on this host
	PerRank int     // GPUs for each rank; 0 means auto
	Listed  int     // GPUs in the hostfile, which bound the assigned ones; 0 means not listed
	Visible *string // CUDA_VISIBLE_DEVICES as ranks inherit it; nil means unset
	Order   string  // CUDA_DEVICE_ORDER as ranks inherit it
}

// byBus is the CUDA_DEVICE_ORDER for which Device.Index is CUDA's number.
const byBus = "PCI_BUS_ID"

// Assignment is which rank gets which GPUs.
type Assignment struct {
	Have   int     // number of GPUs and instances that ranks may use
	Shares []Share // by local rank; nil if ranks use no GPUs
}

// Share is the GPUs of one rank.
type Share struct {
	GPUs []string // for messages: indices of GPUs, UUIDs of instances

	// Seen is the number of GPUs and instances that the rank sees.
	Seen int

	// Visible is the rank's CUDA_VISIBLE_DEVICES. "" leaves the variable alone; the rank is
	// expected to use the device of its local rank.
	Visible string
	Order   string // value of CUDA_DEVICE_ORDER; "" leaves the variable alone

	// Nodes are the NUMA nodes that the rank should run on; nil means any.
	Nodes []int

	// BusIDs are the PCI addresses of its GPUs; nil if unknown.
	BusIDs []string
}

// Assign assigns GPUs to the ranks of a host. devices are those that programs may open. It is pure.
// Its error is a *[FewError] or a *[ListedError].
//
// With a number per rank, a rank sees only its GPUs. They are near each other, and neighbouring
// ranks get neighbouring GPUs. An existing CUDA_VISIBLE_DEVICES is divided in its order.
//
// With auto, all ranks see all GPUs and nothing is set, so that programs can use the device of
// their local rank. If that cannot work, ranks see one device each, round robin: with more ranks
// than GPUs, and with partitioned GPUs, of which CUDA shows a process one instance only. Ranks get
// NUMA nodes if each has its own GPUs: with a number per rank, or with as many ranks as GPUs.
func Assign(devices []Device, ask Request) (Assignment, error) {
	units := unitsOf(devices, ask.Visible)
	if ask.Listed > len(units) {
		return Assignment{}, &ListedError{Listed: ask.Listed, Have: len(units),
			Hidden: len(allUnits(devices)) - len(units)}
	}
	if ask.Listed > 0 {
		units = units[:ask.Listed]
	}
	d := Assignment{Have: len(units)}
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
		s := Share{GPUs: names(devices, one), Seen: d.Have}
		if dealing {
			s.Seen = 1
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

// cut assigns each rank its number of units.
func (d *Assignment) cut(devices []Device, units []unit, ask Request) error {
	partitioned := slices.ContainsFunc(units, func(u unit) bool { return u.mig })
	if ask.Ranks > len(units)/ask.PerRank || partitioned && ask.PerRank > 1 {
		return &FewError{
			Ranks:       ask.Ranks,
			PerRank:     ask.PerRank,
			Have:        len(units),
			Hidden:      len(allUnits(devices)) - len(units),
			Partitioned: partitioned,
			Unnamed:     slices.ContainsFunc(devices, func(d Device) bool { return d.MIGEnabled && len(d.MIG) == 0 }),
		}
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
		s := Share{GPUs: names(devices, own), Seen: len(own)}
		s.Visible, s.Order = setting(devices, own, ask)
		if s.Order == byBus || ordered(devices, own, ask) {
			s.Nodes = nodes(devices, own)
			s.BusIDs = busIDs(devices, own)
		}
		d.Shares = append(d.Shares, s)
	}
	return nil
}

// setting returns the variables by which CUDA shows exactly these units. Numbers have the meaning
// of the list that ranks inherit; without one they are in PCI bus order.
func setting(devices []Device, own []unit, ask Request) (visible, order string) {
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

// ordered reports whether the units' numbers identify GPUs. By default CUDA numbers the fastest of
// different GPUs 0; UUIDs are always unambiguous.
func ordered(devices []Device, units []unit, ask Request) bool {
	alike := !slices.ContainsFunc(devices, func(d Device) bool { return d.Name != devices[0].Name })
	named := ask.Visible != nil && !slices.ContainsFunc(units, func(u unit) bool { return leadingNumber(u.token) >= 0 })
	return alike || named || ask.Order == byBus
}

// nodes returns the NUMA nodes of units, or nil if one is unknown.
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

// busIDs returns the PCI addresses of units, or nil if one is unknown.
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

// FewError reports that a host has fewer GPUs than its ranks need.
type FewError struct {
	Ranks, PerRank, Have int
	Hidden               int  // GPUs that CUDA_VISIBLE_DEVICES or the hostfile excludes
	Partitioned          bool // whether the units are instances
	Unnamed              bool // whether a partitioned GPU has unknown instances
}

func (e *FewError) Error() string {
	if e.Partitioned && e.PerRank > 1 {
		return fmt.Sprintf("a rank cannot have %d GPUs: they are partitioned (MIG), and CUDA gives a process one "+
			"instance", e.PerRank)
	}
	who := count(e.Ranks, "rank") + " need"
	all := count(e.Ranks*e.PerRank, "GPU")
	switch {
	case e.Ranks == 1:
		who += "s"
	case e.PerRank > 1:
		who = fmt.Sprintf("%s, %d GPUs each, need", count(e.Ranks, "rank"), e.PerRank)
	}
	return fmt.Sprintf("%s %s, and there %s%s", who, all, are(e.Have), hidden(e.Hidden))
}

// Hint returns what to change.
func (e *FewError) Hint() string {
	const auto = "--gpus-per-rank auto, with which ranks may share GPUs"
	most := e.Have / e.PerRank
	each := e.Have / e.Ranks
	switch {
	case e.Partitioned && e.PerRank > 1:
		return "say --gpus-per-rank 1"
	case e.Unnamed:
		return "put gorun-gpu beside the gorun that you start, which sends it to hosts whose GPUs are partitioned " +
			"(MIG); what fails there gorun gpus says. Or name instances: -x CUDA_VISIBLE_DEVICES=MIG-...,MIG-..."
	case e.Have == 0:
		return "leave --gpus-per-rank out to run without GPUs"
	case most > 0 && each > 0:
		return fmt.Sprintf("give the host %s at most (-H host:%d), or say --gpus-per-rank %d", count(most, "rank"),
			most, each)
	case most > 0:
		return fmt.Sprintf("give the host %s at most (-H host:%d), or say %s", count(most, "rank"), most, auto)
	case each > 0:
		return fmt.Sprintf("say --gpus-per-rank %d", each)
	}
	return "say " + auto
}

// ListedError reports that a host has fewer GPUs than the hostfile lists.
type ListedError struct{ Listed, Have, Hidden int }

func (e *ListedError) Error() string {
	return fmt.Sprintf("the hostfile says gpus=%d, and there %s%s", e.Listed, are(e.Have), hidden(e.Hidden))
}

// Hint returns what to change.
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
