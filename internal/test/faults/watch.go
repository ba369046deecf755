package faults

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

// Expect is how a job must end after a fault.
type Expect struct {
	Codes []int // the launcher's exit code is one of these
	// regular expression that the launcher's first line with "error:" matches; "": none is looked
	// for
	Cause string
	Also  string        // what further such lines match: consequences that are told as such; "": there are none
	End   time.Duration // from the fault to the launcher's end, at most
	Clean time.Duration // from the fault to the last process of the job, at most

	Next func() error // what clears the hosts up once the launcher has ended; nil: nothing has to

	Ranks    int  // that run internal/test/faults/rank without prefixes, so that their output can be judged; 0: others
	Complete bool // all of their output is there
	Torn     bool // it may end in a part of a line: the launcher itself was ended, or its output has no reader
}

// Verdict is how it ended. As JSON it is one line of a campaign.
type Verdict struct {
	Seed       uint64   `json:"seed,omitempty"`
	Fault      string   `json:"fault"`
	Phase      string   `json:"phase,omitempty"`
	Host       string   `json:"host,omitempty"`
	Second     string   `json:"second,omitempty"` // another fault soon after
	LastsMS    int64    `json:"lasts_ms,omitempty"`
	GapMS      int64    `json:"gap_ms,omitempty"`
	EndMS      int64    `json:"end_ms"`   // from the fault to the launcher's end
	CleanMS    int64    `json:"clear_ms"` // and to the job's last process
	Exit       int      `json:"exit"`
	Cause      string   `json:"cause,omitempty"`
	RSS        int      `json:"rss_kib"`              // the launcher's, at most
	Missed     bool     `json:"missed,omitempty"`     // the fault found no process
	Patient    bool     `json:"patient,omitempty"`    // the ranks ignored SIGTERM, so the stop took the whole grace
	Silent     bool     `json:"silent,omitempty"`     // the fault shows by silence only
	Passes     bool     `json:"passes,omitempty"`     // the fault went by, and the job with it to its own end
	Judged     bool     `json:"judged,omitempty"`     // a cause had to be named
	Violations []string `json:"violations,omitempty"` // "I1: 2 processes left: …"
	Said       string   `json:"said,omitempty"`       // by the launcher, where something is broken
}

// Watch records the state of the machine before a job.
type Watch struct {
	// Every is the interval between its searches for processes. Alone is set if the cluster has no
	// other jobs: then every new process on its hosts belongs to the job.
	Every time.Duration
	Alone bool
	// Hosts is the number of the job's hosts, if the cluster has more.
	Hosts int

	cluster *lab.Cluster
	before  []string
	running map[int]bool // on the hosts
}

// NewWatch records the present state. c is nil for jobs of this machine.
func NewWatch(c *lab.Cluster) *Watch {
	w := &Watch{
		Every:   10 * time.Millisecond,
		cluster: c,
		before:  residue(c, nil),
		running: map[int]bool{},
	}
	for _, pid := range w.onHosts() {
		w.running[pid] = true
	}
	return w
}

// Judge waits for the job and its processes to end, a little longer than e allows, and returns the
// invariants that the job broke. injected is when the fault happened.
func (w *Watch) Judge(j *Job, injected time.Time, e Expect) Verdict {
	v := w.judge(j, injected, e)
	for _, thing := range w.residue(j, 2*time.Second) {
		v.breaks("I4", "left behind: %s", thing)
	}
	return v
}

// judge is Judge without a search for residue.
func (w *Watch) judge(j *Job, injected time.Time, e Expect) Verdict {
	var v Verdict
	select {
	case <-j.ended:
		v.EndMS = max(0, j.at.Sub(injected)).Milliseconds()
		v.Exit = j.code
	case <-time.After(time.Until(injected.Add(e.End + 10*time.Second))):
		v.EndMS = time.Since(injected).Milliseconds()
		v.Exit = -1
		v.breaks("I2", "the launcher still runs")
	}
	if e.Next != nil {
		if err := e.Next(); err != nil {
			v.breaks("I4", "%v", err)
		}
	}
	left, late := w.awaitClean(j, injected.Add(e.Clean))
	v.CleanMS = time.Since(injected).Milliseconds()
	if len(left) > 0 {
		v.breaks("I1", "%d processes left: %s", len(left), describe(left))
	} else if limit := e.Clean; v.CleanMS > limit.Milliseconds() {
		v.breaks("I1", "the last process ended after %d ms, not %v: %s", v.CleanMS, limit, late)
	}
	if v.EndMS > e.End.Milliseconds() && v.Exit != -1 {
		v.breaks("I2", "the launcher ended after %d ms, not %v", v.EndMS, e.End)
	}
	if v.Exit != -1 && !slices.Contains(e.Codes, v.Exit) {
		v.breaks("I2", "exit code %d, not one of %v", v.Exit, e.Codes)
	}
	w.blame(&v, j, e)
	if e.Ranks > 0 && v.Exit != -1 {
		v.Violations = append(v.Violations, CheckLines(j.Out.String(), e.Ranks, e.Complete, e.Torn)...)
	}
	if v.Exit != -1 {
		w.inside(&v, j)
	}
	return v
}

// blame checks for the one line that names the cause.
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
	if e.Cause == "" {
		return
	}
	if len(causes) == 0 {
		v.breaks("I3", "no line names a cause: %q", j.Err.String())
		return
	}
	if !regexp.MustCompile(e.Cause).MatchString(causes[0]) {
		v.breaks("I3", "%q does not match %q", causes[0], e.Cause)
	}
	for _, line := range causes[1:] {
		if e.Also == "" || !regexp.MustCompile(e.Also).MatchString(line) {
			v.breaks("I3", "%q names a further cause, beside %q", line, causes[0])
		}
	}
}

// inside checks the launcher's use of resources and its secrets.
func (w *Watch) inside(v *Verdict, j *Job) {
	for _, where := range j.leaks() {
		v.breaks("I7", "the secret is in %s", where)
	}
	hosts := max(1, w.Hosts)
	if w.cluster != nil {
		hosts = max(hosts, len(w.cluster.Hosts))
	}
	v.RSS = j.used.RSS
	v.Violations = append(v.Violations, j.used.over(hosts)...)
}

// awaitClean waits until the job has no process but the launcher, which has its own bound, up to 10
// s longer than allowed. late are the processes left when the allowed time was over.
func (w *Watch) awaitClean(j *Job, due time.Time) (left []int, late string) {
	for {
		left = w.left(j)
		if late == "" && time.Now().After(due) {
			late = describe(left)
		}
		if len(left) == 0 || time.Since(due) > 10*time.Second {
			return left, late
		}
		time.Sleep(w.Every)
	}
}

// left returns the job's processes without its launcher.
func (w *Watch) left(j *Job) []int {
	if !w.Alone {
		return j.Processes("")
	}
	var pids []int
	for _, pid := range w.onHosts() {
		if !w.running[pid] && pid != j.Launcher() && command(pid) != "" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// onHosts returns the processes on hosts in namespaces, without sshd's, which a cut connection may
// keep alive.
func (w *Watch) onHosts() (pids []int) {
	if w.cluster == nil {
		return nil
	}
	for _, pid := range w.cluster.Inside() {
		if w.running[pid] || !strings.HasPrefix(command(pid), "sshd: ") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// residue returns what is new since before the job, after a moment for it to disappear.
func (w *Watch) residue(j *Job, limit time.Duration) []string {
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		var more []string
		for _, thing := range residue(w.cluster, j) {
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
