package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/prose"
)

// BindingLines has a line for every rank, in order. places are by host. It is pure.
func BindingLines(plan Plan, places [][]Placement) []string {
	lines := make([]string, plan.Size)
	for i, h := range plan.Hosts {
		for _, r := range h.Ranks {
			text := "not bound"
			at := slices.IndexFunc(places[i], func(p Placement) bool { return p.Rank == r.Rank })
			if at >= 0 && places[i][at].CPUs != "" {
				text = prose.Printable(places[i][at].Where + " (" + cpuNoun(places[i][at].CPUs) + ")")
			}
			lines[r.Rank] = fmt.Sprintf("rank %d on %s: %s", r.Rank, h.Name, text)
		}
	}
	return lines
}

// cpuNoun is a list of hardware threads behind what it lists.
func cpuNoun(list string) string {
	if strings.ContainsAny(list, ",-") {
		return "cpus " + list
	}
	return "cpu " + list
}

// ThreadsText is one line about OMP_NUM_THREADS, "" where gorun did not set it. It is pure.
func ThreadsText(plan Plan, places [][]Placement) string {
	var numbers alike
	for i, h := range plan.Hosts {
		for _, p := range places[i] {
			if p.Threads != 0 {
				numbers.add(strconv.Itoa(p.Threads), h.Name)
			}
		}
	}
	return numbers.text("OMP_NUM_THREADS is not set; ranks get ")
}

// ContainedText is one line about what contains the ranks, said of each host; "" where none says. It is pure.
func ContainedText(hosts []Host, said []string) string {
	var by alike
	for i, h := range hosts {
		if said[i] != "" {
			by.add(prose.Printable(said[i]), h.Name)
		}
	}
	return by.text("ranks are contained by ")
}

// alike puts hosts together of which the same is to be said.
type alike struct {
	words []string // in the order in which they are met
	hosts map[string][]string
}

func (a *alike) add(word, host string) {
	if a.hosts == nil {
		a.hosts = map[string][]string{}
	}
	named := a.hosts[word]
	switch {
	case len(named) == 0:
		a.words = append(a.words, word)
	case named[len(named)-1] == host:
		return
	}
	a.hosts[word] = append(named, host)
}

// text is what begins with start, "" where there is nothing to say.
func (a *alike) text(start string) string {
	var parts []string
	for _, word := range a.words {
		parts = append(parts, word+" on "+prose.And(a.hosts[word]))
	}
	if len(parts) == 0 {
		return ""
	}
	return start + strings.Join(parts, "; ")
}
