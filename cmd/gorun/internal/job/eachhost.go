package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/transport"
)

const (
	teardownTime  = time.Minute      // bound on --teardown on all hosts
	teardownStart = 15 * time.Second // bound on the connections for it
	failTime      = 2 * time.Second  // time in which further hosts may fail in --setup
)

// hostCommands runs the commands of --setup and --teardown, each as a job of its own with one
// process on each host.
type hostCommands struct {
	*run

	mu    sync.Mutex
	begun []hostfile.Host // hosts that need --teardown
	noted map[string]bool
}

// once prints a note unless it was printed: several of these jobs may report the same.
func (c *hostCommands) once(text string) {
	c.mu.Lock()
	again := c.noted[text]
	c.noted[text] = true
	c.mu.Unlock()
	if !again {
		c.console.Notef("%s", text)
	}
}

// setUp runs --setup on hosts before a rank starts there. Stop requests end it, and so does a
// failure, after failTime.
func (c *hostCommands) setUp(ctx context.Context, hosts []hostfile.Host, stops <-chan launcher.Stop) error {
	if c.o.Setup == "" {
		return nil
	}
	opts, where, err := c.options(hosts, c.o.Setup)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var others *time.Timer // nil: no host has failed
	opts.Stops = stops
	opts.Tolerate = launcher.TolerateAll
	opts.Follow = func(event launcher.Event) {
		if e, is := event.(launcher.Exited); is && e.Exit.IsFailure() && others == nil {
			others = time.AfterFunc(failTime, cancel)
		}
	}
	result, err := launcher.Run(ctx, where, opts)
	if others != nil {
		others.Stop()
	}
	if err != nil {
		return err
	}
	c.begin(hosts)
	if failed := setupFailures(where, result); len(failed) > 0 {
		return &launcher.LaunchError{Hosts: failed}
	}
	if result.Stopped != launcher.NotStopped {
		return &launcher.StoppedError{Reason: result.Stopped}
	}
	return nil
}

// setupFailures returns the hosts on which --setup has failed, or that were lost.
func setupFailures(where launcher.Plan, result launcher.Result) []launcher.HostError {
	failed := slices.Clone(result.Lost)
	exits := slices.SortedFunc(slices.Values(result.Exits), func(a, b launcher.Exit) int { return a.Rank - b.Rank })
	for _, end := range exits {
		if end.IsFailure() && !end.Stopped {
			why := &launcher.RefusedError{Code: launcher.CodeLaunch, What: "--setup " + end.Describe()}
			failed = append(failed, launcher.HostError{Host: where.Host(end.Rank).Name, Err: why})
		}
	}
	return failed
}

// begin makes --teardown run on hosts, too.
func (c *hostCommands) begin(hosts []hostfile.Host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range hosts {
		if !slices.ContainsFunc(c.begun, func(other hostfile.Host) bool { return other.Name == h.Name }) {
			c.begun = append(c.begun, h)
		}
	}
}

// tearDown runs --teardown on the hosts that were set up, but for lost ones. Stop requests and
// teardownTime end it. Its failures are warnings. If some cannot be reached, the others are tried
// alone: several that pretend to be reached until the next try could use up the time.
func (c *hostCommands) tearDown(ctx context.Context, lost []launcher.HostError) {
	if c.o.Teardown == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTime)
	defer cancel()
	untried := c.tearDownOn(ctx, c.without(c.begun, lost), c.opts.Stops)
	if len(untried) == 0 {
		return
	}
	stops, end := shared(c.opts.Stops, len(untried))
	defer end()
	var all sync.WaitGroup
	for i, h := range untried {
		all.Go(func() { c.tearDownOn(ctx, []hostfile.Host{h}, stops[i]) })
	}
	all.Wait()
}

// tearDownOn runs --teardown on hosts, all or none. It returns those on which it did not run
// because others cannot be reached.
func (c *hostCommands) tearDownOn(ctx context.Context, hosts []hostfile.Host, stops <-chan launcher.Stop) (
	untried []hostfile.Host) {
	if len(hosts) == 0 {
		return nil
	}
	opts, where, err := c.options(hosts, c.o.Teardown)
	if err != nil {
		c.console.Warningf("--teardown: %v", err)
		return nil
	}
	opts.Stops = stops
	opts.StartTimeout = teardownStart
	opts.Tolerate = launcher.TolerateAll
	result, err := launcher.Run(ctx, where, opts)
	if unreached, is := errors.AsType[*launcher.LaunchError](err); is {
		if untried = c.without(hosts, unreached.Hosts); len(untried) < len(hosts) {
			return untried
		}
	}
	c.report(where, result, err)
	return nil
}

// shared passes requests to end a job on to several jobs, until end is called.
func shared(from <-chan launcher.Stop, jobs int) (all []chan launcher.Stop, end func()) {
	for range jobs {
		all = append(all, make(chan launcher.Stop, 4))
	}
	done := make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			select {
			case stop := <-from:
				for _, to := range all {
					select {
					case to <- stop:
					default: // it has as many to read, or has ended
					}
				}
			case <-done:
				return
			}
		}
	})
	return all, func() {
		close(done)
		passing.Wait()
	}
}

// without returns the other hosts, and warns that these cannot be reached.
func (c *hostCommands) without(hosts []hostfile.Host, lost []launcher.HostError) []hostfile.Host {
	return slices.DeleteFunc(slices.Clone(hosts), func(h hostfile.Host) bool {
		i := slices.IndexFunc(lost, func(l launcher.HostError) bool { return l.Host == h.Name })
		if i >= 0 {
			c.console.Warningf("--teardown did not run on %v", lost[i])
		}
		return i >= 0
	})
}

// report warns of hosts on which --teardown has failed.
func (c *hostCommands) report(where launcher.Plan, result launcher.Result, err error) {
	switch {
	case err != nil:
		c.console.Warningf("--teardown: %v", err)
	case result.Stopped == launcher.Terminated:
		c.console.Warningf("--teardown was stopped: it did not end within %v", teardownTime)
	case result.Stopped != launcher.NotStopped:
		c.console.Warningf("--teardown was stopped")
	}
	for _, h := range where.Hosts {
		for _, end := range result.Exits {
			if h.Has(end.Rank) && (end.Code != 0 || end.Signal != 0) && !end.Stopped {
				c.console.Warningf("--teardown on %s %s", h.Name, end.Describe())
			}
		}
	}
	for _, h := range result.Lost {
		c.console.Warningf("--teardown: %v", h)
	}
}

// options returns a job with one process on each host: a command of a shell, in the environment and
// the directory of the job's first program.
func (c *hostCommands) options(hosts []hostfile.Host, command string) (launcher.Options, launcher.Plan, error) {
	hosts = slices.Clone(hosts)
	for i := range hosts {
		hosts[i].Slots = 1
	}
	where, err := plan.New(hosts, launcher.Request{NP: len(hosts)})
	if err != nil {
		return launcher.Options{}, where, err
	}
	dial, err := transport.Dialer(togetherIn(c.o, where, c.opts.Exe, c.console))
	if err != nil {
		return launcher.Options{}, where, err
	}
	program := c.opts.Programs[0]
	program.Argv = []string{"/bin/sh", "-c", command}
	program.Ranks = len(hosts)
	prefixes := make([][]byte, where.Size)
	for _, h := range where.Hosts {
		for _, r := range h.Ranks {
			prefixes[r.Rank] = fmt.Appendf(nil, "%s: ", h.Name)
		}
	}
	by := c.opts.Reach
	by.Dial = dial
	by.Note = c.once
	by.GPUProgram = nil // the command gets no GPUs
	return launcher.Options{
		Programs:  []launcher.Program{program},
		Env:       c.opts.Env,
		Work:      c.opts.Work,
		Python:    c.opts.Python,
		Settings:  launcher.Settings{Bare: true, NoNewPrivileges: c.opts.NoNewPrivileges},
		GPUs:      launcher.GPURequest{Leave: true},
		Reach:     by,
		Where:     c.opts.Where,
		Stdout:    c.opts.Stdout,
		Stderr:    c.opts.Stderr,
		OneOutput: c.opts.OneOutput,
		Format: launcher.Format{
			Prefix:   func(rank, _ int, _ time.Time) []byte { return prefixes[rank] },
			CutMark:  c.opts.CutMark,
			LastMark: c.opts.LastMark,
		},
		Grace: c.opts.Grace,
	}, where, nil
}
