package launcher

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/prose"
)

// Cores asks hosts how many cores ranks may keep busy on them. Of opts it needs how hosts are reached,
// what is staged there, and Trace. Its error is a *[LaunchError] about the hosts that did not answer.
func Cores(ctx context.Context, hosts []hostfile.Host, opts Options) ([]int, error) {
	opts.setDefaults()
	var plan Plan
	for _, h := range hosts {
		plan.Hosts = append(plan.Hosts, PlannedHost{Host: h})
	}
	job, err := newJob(plan, opts)
	if err != nil {
		return nil, err
	}
	defer job.close()
	if err := job.onEveryHost(ctx, step{"connecting", job.connect}, step{"starting its agent", job.stage}); err != nil {
		return nil, err
	}
	cores := make([]int, len(hosts))
	for i, s := range job.sessions {
		cores[i] = max(s.hello.Cores, 1)
	}
	return cores, nil
}

// sayPlaces tells where ranks run on their hosts, if that was asked for, what contains them, and how many
// threads they are told to start.
func (j *job) sayPlaces() {
	if j.opts.ReportBindings {
		for _, line := range bindingLines(j.plan, j.places) {
			j.opts.Note(line)
		}
	}
	for _, line := range sharedGPUs(j.plan, j.places) {
		j.opts.Note(line)
	}
	said, gpus := make([]string, len(j.sessions)), make([]string, len(j.sessions))
	for i, s := range j.sessions {
		said[i], gpus[i] = s.contained, s.gpus
	}
	for _, text := range []string{containedText(j.plan.Hosts, said), gpusText(j.plan.Hosts, gpus), threadsText(j.plan, j.places)} {
		if text != "" {
			j.opts.Trace("%s", text)
		}
	}
}

// bindingLines has a line for every rank, in order. places are by host. It is pure.
func bindingLines(plan Plan, places [][]Placement) []string {
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

// threadsText is one line about OMP_NUM_THREADS, "" where gorun did not set it. It is pure.
func threadsText(plan Plan, places [][]Placement) string {
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

// containedText is one line about what contains the ranks, said of each host; "" where none says. It is pure.
func containedText(hosts []PlannedHost, said []string) string {
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
