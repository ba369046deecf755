package launcher

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/wire"
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

// sayPlaces tells where ranks run on their hosts, if that was asked for, and how many threads they are told
// to start.
func (j *job) sayPlaces() {
	if j.opts.ReportBindings {
		for _, line := range bindingLines(j.plan, j.places) {
			j.opts.Note(line)
		}
	}
	if text := threadsText(j.plan, j.places); text != "" {
		j.opts.Trace("%s", text)
	}
}

// bindingLines has a line for every rank, in order. places are by host. It is pure.
func bindingLines(plan Plan, places [][]wire.Place) []string {
	lines := make([]string, plan.Size)
	for i, h := range plan.Hosts {
		for _, r := range h.Ranks {
			text := "not bound"
			at := slices.IndexFunc(places[i], func(p wire.Place) bool { return p.Rank == r.Rank })
			if at >= 0 && places[i][at].CPUs != "" {
				text = printable(places[i][at].Where + " (" + cpuNoun(places[i][at].CPUs) + ")")
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
func threadsText(plan Plan, places [][]wire.Place) string {
	hosts := map[int][]string{}
	var numbers []int // in the order in which they are met
	for i, h := range plan.Hosts {
		for _, p := range places[i] {
			named := hosts[p.Threads]
			if p.Threads == 0 || len(named) > 0 && named[len(named)-1] == h.Name {
				continue
			}
			if len(named) == 0 {
				numbers = append(numbers, p.Threads)
			}
			hosts[p.Threads] = append(named, h.Name)
		}
	}
	var parts []string
	for _, n := range numbers {
		parts = append(parts, fmt.Sprintf("%d on %s", n, nameAll(hosts[n])))
	}
	if len(parts) == 0 {
		return ""
	}
	return "OMP_NUM_THREADS is not set; ranks get " + strings.Join(parts, "; ")
}
