package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
)

// leaveGPUs is the hint for ranks that share GPUs, which may need none.
const leaveGPUs = "; for ranks that use none: --gpus-per-rank none"

// SharedGPUs returns a line for every host with ranks that share GPUs; hosts that share them in the
// same way have one line. places are by host. It is pure.
func SharedGPUs(plan Plan, places [][]wire.Placement) (lines []string) {
	var by alike
	alone := map[string]string{} // the line of the one host with it
	for i, h := range plan.Hosts {
		var gpus []string // in order of appearance
		local := map[string][]int{}
		global := map[string][]int{}
		for _, r := range h.Ranks {
			at := slices.IndexFunc(places[i], func(p wire.Placement) bool { return p.Rank == r.Rank })
			if at < 0 {
				continue
			}
			for _, gpu := range places[i][at].GPUs {
				if local[gpu] == nil {
					gpus = append(gpus, gpu)
				}
				local[gpu] = append(local[gpu], r.LocalRank)
				global[gpu] = append(global[gpu], r.Rank)
			}
		}
		if text := sharers("local ranks", gpus, local); text != "" {
			by.add(text, h.Name)
			alone[text] = sharers("ranks", gpus, global)
		}
	}
	for _, text := range by.words {
		if hosts := by.hosts[text]; len(hosts) > 1 {
			lines = append(lines, "on "+prose.And(hosts)+" "+text+leaveGPUs)
		} else {
			lines = append(lines, hosts[0]+": "+alone[text]+leaveGPUs)
		}
	}
	return lines
}

// GPUUsers holds the slots that have had a GPU, by host and GPU. Each agent of an elastic job knows
// only its own slot.
type GPUUsers map[string]map[string][]int

// mostGPUs bounds the GPUs of a host that are remembered. One that tells of others each time is
// wrong.
const mostGPUs = 1 << 10

// Add returns a notice if a slot gets GPUs that other slots have, once per GPU.
func (u GPUUsers) Add(host string, slot int, gpus []string) (text string) {
	known := u[host]
	if known == nil {
		known = map[string][]int{}
		u[host] = known
	}
	for _, gpu := range gpus {
		slots := known[gpu]
		if slices.Contains(slots, slot) || slots == nil && len(known) >= mostGPUs {
			continue
		}
		slots = append(slots, slot)
		known[gpu] = slots
		if len(slots) == 2 {
			text = fmt.Sprintf("%s: %s%s", host, sharers("slots", []string{gpu}, map[string][]int{gpu: slots}),
				leaveGPUs)
		}
	}
	return text
}

// sharers returns a text such as "ranks 0 and 4 share GPU 0, 1 and 5 GPU 1", cut after a few, or ""
// if no GPU is shared.
func sharers(noun string, gpus []string, ranks map[string][]int) string {
	const most = 4
	var parts []string
	for _, gpu := range gpus {
		if len(ranks[gpu]) < 2 {
			continue
		}
		switch text := ranksText(ranks[gpu]); len(parts) {
		case 0:
			parts = append(parts, fmt.Sprintf("%s %s share GPU %s", noun, text, prose.Printable(gpu)))
		case most:
			parts = append(parts, "and so on")
		default:
			parts = append(parts, fmt.Sprintf("%s GPU %s", text, prose.Printable(gpu)))
		}
		if len(parts) > most {
			break
		}
	}
	return strings.Join(parts, ", ")
}

// ranksText returns a list such as "0 and 4" or "0, 4 and 8", cut after a few.
func ranksText(ranks []int) string {
	const most = 4
	var names []string
	for _, r := range ranks {
		names = append(names, strconv.Itoa(r))
	}
	if more := len(names) - most; more > 1 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// GPUsText joins the hosts' descriptions of their GPUs to one line, or "" if there are none. It is
// pure.
func GPUsText(hosts []Host, said []string) string {
	var by alike
	for i, h := range hosts {
		if said[i] != "" {
			by.add(prose.Printable(said[i]), h.Name)
		}
	}
	return by.text("there are ")
}
