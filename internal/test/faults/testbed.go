package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

// Testbed is a cluster of two hosts for one injection after another.
type Testbed struct {
	Gorun, Rank string // programs
	Bounds      Bounds

	c     *lab.Cluster
	marks *Marks
	work  string // a folder that only the launcher's host sees
}

// NewTestbed starts the hosts.
func NewTestbed(ctx context.Context, gorun, rank string, b Bounds) (*Testbed, error) {
	c, err := lab.Namespaces(ctx, lab.Specs(2)...)
	if err != nil {
		return nil, err
	}
	s := &Testbed{
		Gorun:  gorun,
		Rank:   rank,
		Bounds: b,
		c:      c,
		marks:  &Marks{},
		work:   filepath.Join(c.Dir, "work"),
	}
	if err := s.furnish(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return s, nil
}

// furnish makes the work folder, which is empty on the hosts.
func (s *Testbed) furnish(ctx context.Context) error {
	if err := os.Mkdir(s.work, 0o755); err != nil {
		return err
	}
	if err := s.c.Disk(ctx, "f0", s.work, 32<<10); err != nil {
		return err
	}
	script := `cd "$0" && for i in $(seq 200); do echo $i >$i || exit; done && head -c 12000000 /dev/urandom >large`
	if out, err := s.c.Command(ctx, "sh", "-c", script, s.work).CombinedOutput(); err != nil {
		return fmt.Errorf("make a work folder: %w: %s", err, out)
	}
	return nil
}

// Close takes the hosts down.
func (s *Testbed) Close() error { return s.c.Close() }

// errNoVictim reports that a fault found no process: the job had ended or not begun.
var errNoVictim = errors.New("the fault found no process")

// Inject runs a job, harms it and judges the result.
func (s *Testbed) Inject(ctx context.Context, d Injection) (Verdict, error) {
	for i := range s.c.Hosts {
		if err := os.RemoveAll(filepath.Join(s.c.Hosts[i].Home, ".cache/gorun/work")); err != nil {
			return Verdict{}, err
		}
	}
	w := NewWatch(s.c)
	w.Every = 100 * time.Millisecond
	w.Alone = true
	j, err := s.marks.Start(ctx, s.c, nil, s.command(d)...)
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{
		Seed:   d.Seed,
		Fault:  string(d.Fault),
		Phase:  string(d.Phase),
		Host:   d.Host,
		Second: string(d.Second),
	}
	if err := s.reach(j, d); err != nil {
		return v, errors.Join(fmt.Errorf("seed %d: %w; stdout %q, stderr %q", d.Seed, err, tailOf(&j.Out),
			tailOf(&j.Err)), j.Close())
	}
	expect := Expected(d, s.Bounds)
	at, missed, err := s.harm(ctx, j, d)
	if err != nil {
		return v, errors.Join(fmt.Errorf("seed %d: %w", d.Seed, err), s.heal(ctx, d), j.Close())
	}
	if missed {
		v.Missed = true
		expect.Codes = append(expect.Codes, 0)
		expect.Cause = ""
		expect.End += 2 * time.Second
		expect.Clean += 2 * time.Second
	}
	next := s.next(ctx, d)
	if d.Daemon && next != nil { // other ranks end with their agent
		expect.Next = next
		next = nil
		expect.Clean += nextTime
	}
	got := w.judge(j, at, expect)
	if next != nil {
		if err := next(); err != nil {
			got.breaks("I4", "%v", err)
		}
	}
	v.EndMS = got.EndMS
	v.CleanMS = got.CleanMS
	v.Exit = got.Exit
	v.Cause = got.Cause
	v.RSS = got.RSS
	v.Violations = got.Violations
	v.Patient = d.Ignore
	v.Judged = expect.Cause != ""
	v.Silent = infoOf(d.Fault).detect > 0
	if v.Passes = infoOf(d.Fault).passes() && d.Second == None; v.Passes {
		v.LastsMS = d.Lasts.Milliseconds()
	}
	v.GapMS = d.Gap.Milliseconds()
	if err := s.heal(ctx, d); err != nil {
		return v, errors.Join(err, j.Close())
	}
	for _, thing := range w.residue(j, 2*time.Second) {
		v.breaks("I4", "left behind: %s", thing)
	}
	if len(v.Violations) > 0 {
		v.Said = tailOf(&j.Err)
	}
	return v, j.Close()
}

const nextTime = 3 * time.Second

// next starts another job, which cleans a host that lost its agent and guard. Until then daemons
// live on and an empty cgroup stays. nil: there is no such host.
func (s *Testbed) next(ctx context.Context, d Injection) func() error {
	host := d.unwatched()
	if host == "" {
		return nil
	}
	return func() error {
		j, err := s.marks.Start(ctx, s.c, nil, s.Gorun, "-F", "{config}", "-H", host, "true")
		if err != nil {
			return err
		}
		<-j.Ended()
		if j.Code() != 0 {
			err = fmt.Errorf("the next job on %s ended with %d: %s", host, j.Code(), tailOf(&j.Err))
		}
		return errors.Join(err, j.Close())
	}
}

func tailOf(o *lab.Output) string {
	text := o.String()
	return text[max(0, len(text)-2000):]
}

// command returns the job of d.
func (s *Testbed) command(d Injection) []string {
	words := []string{s.Gorun, "-F", "{config}", "-np", strconv.Itoa(injected), "-H", "f1:2,f2:2", "--prefix", "none",
		"--grace", graceOfDraws.String()}
	if d.Phase == Staging {
		words = append(words, "--stage", s.work)
	}
	words = append(words, s.Rank)
	for flag, set := range map[string]bool{"-ignore-term": d.Ignore, "-daemon": d.Daemon, "-reduce": d.Reduce} {
		if set {
			words = append(words, flag)
		}
	}
	return words
}

// reach waits until the job is in d's phase.
func (s *Testbed) reach(j *Job, d Injection) error {
	ready := func() bool { return strings.HasPrefix(command(j.Launcher()), s.Gorun) } // nsenter has become it
	switch d.Phase {
	case Staging, Starting: // the agent receives the folder before it starts ranks
		ready = func() bool { return len(j.On(d.Host, "__serve")) > 0 || s.allPrint(j) }
	case Running, Ending:
		ready = func() bool { return s.allPrint(j) }
	}
	if !j.Await(30*time.Second, ready) {
		return fmt.Errorf("waited in vain for the job to be %s", d.Phase)
	}
	if d.Phase == Ending {
		_ = syscall.Kill(j.Launcher(), syscall.SIGUSR1)
	}
	time.Sleep(d.Delay)
	return nil
}

// allPrint reports whether every rank has printed a line.
func (s *Testbed) allPrint(j *Job) bool {
	out := "\n" + j.Out.String()
	for rank := range injected {
		if !strings.Contains(out, fmt.Sprintf("\n%d 0 ", rank)) {
			return false
		}
	}
	return true
}

// harm does the faults of d and returns when it did. After a transient fault it tells the job to
// stop.
func (s *Testbed) harm(ctx context.Context, j *Job, d Injection) (at time.Time, missed bool, err error) {
	at = time.Now()
	err = s.strike(ctx, j, d.Fault, d.Host, d.Lasts)
	missed = errors.Is(err, errNoVictim)
	if err != nil && !missed {
		return at, false, err
	}
	if d.Second != None {
		time.Sleep(d.Gap)
		at = time.Now()
		if err := s.strike(ctx, j, d.Second, d.other(), 0); err != nil && !errors.Is(err, errNoVictim) {
			return at, false, err
		}
	}
	if (infoOf(d.Fault).passes() && d.Second == None) || missed {
		j.Await(30*time.Second, func() bool { return s.allPrint(j) })
		_ = syscall.Kill(j.Launcher(), syscall.SIGUSR1)
	}
	return at, missed, nil
}

// heal undoes d's network faults. It resets connections over a cut link, since gorun does not
// answer for sshd's sessions.
func (s *Testbed) heal(ctx context.Context, d Injection) error {
	if infoOf(d.Fault).detect == 0 {
		return nil
	}
	return errors.Join(s.reconnect(ctx, d.Fault, d.Host), s.c.Reset(ctx, "f0", d.Host))
}
