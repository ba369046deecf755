package faults

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/lab"
)

// Expect is what must become of a job after a fault.
type Expect struct {
	Codes []int         // the launcher's exit code is one of these
	Cause string        // regular expression that the launcher's first line with "error:" matches; "": none is looked for
	End   time.Duration // from the fault to the launcher's end, at most
	Clean time.Duration // from the fault to the last process of the job, at most
}

// Verdict is what became of it. As JSON it is one line of a campaign.
type Verdict struct {
	Seed       uint64   `json:"seed,omitempty"`
	Fault      string   `json:"fault"`
	Phase      string   `json:"phase,omitempty"`
	Host       string   `json:"host,omitempty"`
	Second     string   `json:"second,omitempty"` // another fault soon after
	EndMS      int64    `json:"end_ms"`           // from the fault to the launcher's end
	CleanMS    int64    `json:"clear_ms"`         // and to the job's last process
	Exit       int      `json:"exit"`
	Cause      string   `json:"cause,omitempty"`
	Violations []string `json:"violations,omitempty"` // "I1: 2 processes left: …"
}

// Watch knows what was on the machine before a job.
type Watch struct {
	cluster *lab.Cluster
	before  []string
}

// NewWatch looks at what there is. c is nil for jobs of this machine.
func NewWatch(c *lab.Cluster) *Watch { return &Watch{c, residue(c)} }

// Judge waits for the job's end and that of its processes, in the time that e allows and a little
// more, and tells which invariants the job broke. injected is when the fault happened.
func (w *Watch) Judge(j *Job, injected time.Time, e Expect) Verdict {
	var v Verdict
	select {
	case <-j.ended:
		v.EndMS, v.Exit = max(0, j.at.Sub(injected)).Milliseconds(), j.code
	case <-time.After(time.Until(injected.Add(e.End + 10*time.Second))):
		v.EndMS, v.Exit = time.Since(injected).Milliseconds(), -1
		v.breaks("I2", "the launcher still runs")
	}
	left := w.awaitClean(j, injected.Add(e.Clean+10*time.Second))
	v.CleanMS = time.Since(injected).Milliseconds()
	if len(left) > 0 {
		v.breaks("I1", "%d processes left: %s", len(left), describe(left))
	} else if limit := e.Clean; v.CleanMS > limit.Milliseconds() {
		v.breaks("I1", "the last process ended after %d ms, not %v", v.CleanMS, limit)
	}
	if v.EndMS > e.End.Milliseconds() && v.Exit != -1 {
		v.breaks("I2", "the launcher ended after %d ms, not %v", v.EndMS, e.End)
	}
	if v.Exit != -1 && !slices.Contains(e.Codes, v.Exit) {
		v.breaks("I2", "exit code %d, not one of %v", v.Exit, e.Codes)
	}
	w.blame(&v, j, e)
	for _, thing := range w.residue(2 * time.Second) {
		v.breaks("I4", "left behind: %s", thing)
	}
	return v
}

// blame looks for the one line that names the cause.
func (w *Watch) blame(v *Verdict, j *Job, e Expect) {
	var causes []string
	for line := range strings.Lines(j.Err.String()) {
		if strings.Contains(line, "error:") {
			causes = append(causes, strings.TrimSpace(line))
		}
	}
	if len(causes) > 0 {
		v.Cause = causes[0]
	}
	switch {
	case e.Cause == "":
	case len(causes) != 1:
		v.breaks("I3", "%d lines name a cause: %q", len(causes), causes)
	case !regexp.MustCompile(e.Cause).MatchString(causes[0]):
		v.breaks("I3", "%q does not match %q", causes[0], e.Cause)
	}
}

// awaitClean waits until the job has no process but the launcher, which has its own bound.
func (w *Watch) awaitClean(j *Job, deadline time.Time) (left []int) {
	for {
		if left = j.Processes(""); len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// residue is what there is now and was not before, given a moment to go.
func (w *Watch) residue(patience time.Duration) []string {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var more []string
		for _, thing := range residue(w.cluster) {
			if !slices.Contains(w.before, thing) {
				more = append(more, thing)
			}
		}
		if len(more) == 0 || time.Now().After(deadline) {
			return more
		}
	}
}

func (v *Verdict) breaks(invariant, format string, args ...any) {
	v.Violations = append(v.Violations, invariant+": "+fmt.Sprintf(format, args...))
}
