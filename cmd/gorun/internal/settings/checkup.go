package settings

import (
	"slices"

	"github.com/gorun/gorun/internal/usage"
)

// Checkup is an examination of the hosts before a job.
type Checkup struct {
	Level   string // level of gorun doctor; "": no check
	Exclude bool   // bad hosts are left out
}

func (c *Checkup) check(o *Options) error {
	levels := []string{"", "quick", "default", "long"}
	switch {
	case !slices.Contains(levels, c.Level):
		return faultOf("check-first", "for example --check-first=quick",
			"=%s: expected quick, default or long", usage.Clipped(c.Level))
	case c.Exclude && c.Level == "":
		return faultOf("exclude-bad", "add --check-first", "needs --check-first")
	case c.Level != "" && o.HostsChange():
		return faultOf("check-first", "examine the hosts before: gorun doctor -H f1,f2",
			"with hosts that come and go: those that come later are not examined")
	case c.Exclude && (o.Rankfile != "" || o.MapBy.Sequence):
		return faultOf("exclude-bad", "leave one of them out",
			"with --rankfile or --map-by seq: these say where each rank runs")
	}
	return nil
}

// LeaveOut excludes hosts from the job.
func (o *Options) LeaveOut(hosts []string) {
	for _, h := range hosts {
		if o.Hosts != "" {
			o.Hosts += ","
		}
		o.Hosts += "^" + h
	}
}
