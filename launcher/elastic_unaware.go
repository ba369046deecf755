package launcher

import (
	"time"

	"github.com/gorun/gorun/internal/elastic"
)

// unawareTime is how long ranks may run without asking for an epoch before they count as unaware of epochs. The job is then
// handled like one that is not elastic.
const unawareTime = 10 * time.Second

// presume detects ranks that are unaware of epochs. A rank that asks later is admitted at once.
func (j *elasticJob) presume() {
	if j.epoch != nil || j.unaware || j.ended || len(j.procs) == 0 {
		return
	}
	var all []*elasticProcess
	for _, p := range j.procs {
		if p.session == nil || p.asked || p.exited || j.now()-p.upAt < unawareTime {
			return
		}
		all = append(all, p)
	}
	j.unaware = true
	j.opts.Trace("no rank has asked for an epoch within %v: they seem to run as in any job", unawareTime)
	j.step(elastic.Hold{Hold: true})
	for _, p := range all {
		j.step(elastic.Ready{Process: p.name})
	}
}

// aware records that a rank has asked for an epoch.
func (j *elasticJob) aware() {
	if j.unaware {
		j.unaware = false
		j.step(elastic.Hold{})
	}
}

// failUnaware ends the job as any other ends when a rank fails.
func (j *elasticJob) failUnaware(p *elasticProcess, e Exit) {
	j.failed = p // its last lines are known when all output is written
	j.end.Cause = &Failure{Rank: e.Rank, Host: p.name.Host, Exit: e, At: e.At}
	code := e.Code
	if e.Signal != 0 {
		code = CodeSignalBase + e.Signal
	}
	j.step(elastic.UserStop{Code: code})
}
