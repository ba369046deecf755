package launcher

import (
	"context"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher/connect"
	"github.com/gorun/gorun/launcher/plan"
)

// Cores returns how many cores ranks may keep busy on each host. It uses opts.Dial, opts.Exe and
// opts.Trace. The error is a *[LaunchError] with the hosts that did not answer.
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
	if err := job.onEveryHost(ctx, connect.Step{Doing: "connecting", Do: job.connect},
		connect.Step{Doing: "starting its agent", Do: job.stage}); err != nil {
		return nil, err
	}
	cores := make([]int, len(hosts))
	for i, s := range job.sessions {
		cores[i] = max(s.Hello.Cores, 1)
	}
	return cores, nil
}

// reportPlacements reports the ranks' bindings, if requested, and traces their cages and numbers of
// threads.
func (j *job) reportPlacements() {
	if j.opts.ReportBindings {
		for _, line := range plan.BindingLines(j.plan, j.places) {
			j.opts.Note(line)
		}
	}
	for _, line := range plan.SharedGPUs(j.plan, j.places) {
		j.opts.Note(line)
	}
	said := make([]string, len(j.sessions))
	gpus := make([]string, len(j.sessions))
	for i, s := range j.sessions {
		said[i] = s.Ready.Contained
		gpus[i] = s.Ready.GPUs
	}
	for _, text := range []string{plan.ContainedText(j.plan.Hosts, said), plan.GPUsText(j.plan.Hosts, gpus),
		plan.ThreadsText(j.plan, j.places)} {
		if text != "" {
			j.opts.Trace("%s", text)
		}
	}
}
