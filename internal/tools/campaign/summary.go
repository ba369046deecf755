package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/test/faults"
)

// summary is the result of a campaign.
type summary struct {
	count, missed, broken int
	by                    map[string]int // invariant → injections that broke it
	causes, right         int            // injections where the launcher had to name a cause, and did
	// ms: to the end after faults that are reported, and after silent ones; to the last process
	reported, silent, clean []int64
	rss                     int // KiB
}

func summarize(verdicts []faults.Verdict) summary {
	s := summary{count: len(verdicts), by: map[string]int{}}
	for _, v := range verdicts {
		broke := map[string]bool{}
		for _, what := range v.Violations {
			invariant, _, _ := strings.Cut(what, ":")
			broke[invariant] = true
		}
		for invariant := range broke {
			s.by[invariant]++
		}
		if len(broke) > 0 {
			s.broken++
		}
		if v.Missed {
			s.missed++
		}
		if v.Judged {
			s.causes++
			if !broke["I3"] {
				s.right++
			}
		}
		s.rss = max(s.rss, v.RSS)
		switch {
		case v.Missed || v.Passes || v.Exit == 0 || v.Patient:
		case v.Silent:
			s.silent = append(s.silent, v.EndMS)
			s.clean = append(s.clean, v.CleanMS)
		default:
			s.reported = append(s.reported, v.EndMS)
			s.clean = append(s.clean, v.CleanMS)
		}
	}
	return s
}

func (s summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d injections (%d found no process), %d broke an invariant\n", s.count, s.missed, s.broken)
	fmt.Fprintf(&b, "orphans %d, hangs or wrong codes %d, wrong causes %d, residue %d, output not exact %d, wrong "+
		"results %d, secrets seen %d, too much used %d\n",
		s.by["I1"], s.by["I2"], s.by["I3"], s.by["I4"], s.by["I5"], s.by["I6"], s.by["I7"], s.by["I8"])
	for _, invariant := range slices.Sorted(maps.Keys(s.by)) {
		if !strings.Contains("I1 I2 I3 I4 I5 I6 I7 I8", invariant) {
			fmt.Fprintf(&b, "%s %d\n", invariant, s.by[invariant])
		}
	}
	if s.causes > 0 {
		fmt.Fprintf(&b, "first cause right: %.1f %% of %d\n", 100*float64(s.right)/float64(s.causes), s.causes)
	}
	fmt.Fprintf(&b, "to gorun's end, where the fault shows itself:  %s\n", percentiles(s.reported))
	fmt.Fprintf(&b, "to gorun's end, where a host falls silent:     %s\n", percentiles(s.silent))
	fmt.Fprintf(&b, "to the last process:                           %s\n", percentiles(s.clean))
	fmt.Fprintf(&b, "gorun's memory, at most: %d MiB\n", s.rss>>10)
	return b.String()
}

// percentiles returns those of times in ms.
func percentiles(ms []int64) string {
	if len(ms) == 0 {
		return "none"
	}
	slices.Sort(ms)
	at := func(p float64) int64 { return ms[min(len(ms)-1, int(p*float64(len(ms))))] }
	return fmt.Sprintf("p50 %d ms, p99 %d ms, max %d ms (%d)", at(.5), at(.99), ms[len(ms)-1], len(ms))
}
