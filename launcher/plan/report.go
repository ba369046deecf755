package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
)

// BindingLines returns a line for every rank, in rank order. places are by host. It is pure.
func BindingLines(plan Plan, places [][]wire.Placement) []string {
	lines := make([]string, plan.Size)
	for i, h := range plan.Hosts {
		for _, r := range h.Ranks {
			text := "not bound"
			at := slices.IndexFunc(places[i], func(p wire.Placement) bool { return p.Rank == r.Rank })
			if at >= 0 && places[i][at].CPUs != "" {
				text = prose.Printable(places[i][at].Where + " (" + cpuNoun(places[i][at].CPUs) + ")")
			}
			lines[r.Rank] = fmt.Sprintf("rank %d on %s: %s", r.Rank, h.Name, text)
		}
	}
	return lines
}

// cpuNoun returns a list of hardware threads after its noun, such as "cpus 0-1".
func cpuNoun(list string) string {
	if strings.ContainsAny(list, ",-") {
		return "cpus " + list
	}
	return "cpu " + list
}

// ThreadsText is one line about OMP_NUM_THREADS, "" where gorun did not set it. It is pure.
func ThreadsText(plan Plan, places [][]wire.Placement) string {
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

// ContainedText joins the hosts' descriptions of their cages to one line, or "" if there are none.
// It is pure.
func ContainedText(hosts []Host, said []string) string {
	var by alike
	for i, h := range hosts {
		if said[i] != "" {
			by.add(prose.Printable(said[i]), h.Name)
		}
	}
	return by.text("ranks are contained by ")
}

// alike groups hosts by their description.
type alike struct {
	words []string // in order of appearance
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

// text returns the groups as a text that begins with start, or "" if there are none.
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
