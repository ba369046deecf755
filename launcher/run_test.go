package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/core"
	"github.com/gorun/gorun/launcher/plan"
)

// ran is how a job of a test went.
type ran struct {
	Result
	out  string
	took time.Duration
}

// runOn runs two ranks on each of the machines, named h0, h1, …, on a clock that does not wait.
// change may be nil. Goroutines that Run leaves behind fail the test.
func runOn(t *testing.T, machines []*fake.Machine, change func(*Options)) (r ran, err error) {
	t.Helper()
	return runSpawning(t, machines, 0, change)
}

// runSpawning is like runOn. Each machine may spawn so many ranks at a time.
func runSpawning(t *testing.T, machines []*fake.Machine, most int, change func(*Options)) (r ran, err error) {
	t.Helper()
	return runPlanned(t, machines, func(p Plan) Plan { return p.WithSpawn(most, 0) }, change)
}

// runPlanned is like runOn, with another plan than that of all slots.
func runPlanned(t *testing.T, machines []*fake.Machine, other func(Plan) Plan, change func(*Options)) (r ran,
	err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var hosts []hostfile.Host
		for i, m := range machines {
			hosts = append(hosts, hostfile.Host{Name: fmt.Sprint("h", i), Slots: 2})
			if m.Disk == nil {
				m.Disk = fake.NewDisk(map[string]string{"/opt/gorun": "build one"})
			}
		}
		p := other(must.Get(plan.New(hosts, Request{}))(t))
		var out fake.Terminal
		opts := testOptions(p.Size, &out, func(_ context.Context, h hostfile.Host) (Host, error) {
			return machines[h.Name[1]-'0'], nil
		})
		opts.Prefix = func(rank, fd int, _ time.Time) []byte { return fmt.Appendf(nil, "%d/%d> ", rank, fd) }
		if change != nil {
			change(&opts)
		}
		began := time.Now()
		r.Result, err = Run(t.Context(), p, opts)
		r.took = time.Since(began)
		r.out = out.String()
		if stuck, is := opts.Stdout.(*fake.StuckTerminal); is {
			close(stuck.Release)
		}
		synctest.Wait()
		for i, m := range machines {
			m.Mu.Lock()
			check.That(t, len(m.Ran) == 0 || m.Closed, "host %d was not closed", i)
			m.Mu.Unlock()
		}
	})
	return r, err
}

// testOptions are those of a job of one program, whose agent is on every host.
func testOptions(ranks int, out io.Writer, dial Dialer) Options {
	return Options{
		Grace:    5 * time.Second,
		Programs: []Program{{Argv: []string{"./train"}, Wdir: "/work", Ranks: ranks}},
		Reach:    Reach{Dial: dial, Exe: testExecutable()},
		Stdout:   out,
		Stderr:   out,
	}
}

// succeeds checks that a job ended well.
func succeeds(t *testing.T, r Result, err error) {
	t.Helper()
	check.That(t, err == nil && r.Code() == 0, "%+v (%v), %v", r, r.Cause, err)
}

// serving is a machine whose agent gets ready and, once started, does what it is told.
func serving(life func(a *fake.Agent) error) *fake.Machine {
	return &fake.Machine{Serve: func(a *fake.Agent) error {
		if err := a.Ready(); err != nil {
			return nil // the job was called off
		}
		return life(a)
	}}
}

// succeed ends every rank well.
func succeed(a *fake.Agent) error { return a.Finish(wire.Exit{}) }

// obey runs until it is told to stop and then ends every rank by TERM.
func obey(a *fake.Agent) error {
	if _, err := a.Expect(wire.TypeStop); err != nil {
		return err
	}
	return a.Finish(wire.Exit{Signal: 15, Stopped: true})
}

// spawnOne has rank 0 spawn a rank, and returns its number.
func spawnOne(a *fake.Agent) (rank int, err error) {
	more := wire.SpawnRequest{By: 0, Programs: []wire.SpawnProgram{{Argv: wire.Texts{"a"}, Ranks: 1}}}
	if err := a.Out.SendMessage(wire.TypeSpawn, more); err != nil {
		return 0, err
	}
	f, err := a.Expect(wire.TypeWorld)
	if err != nil {
		return 0, err
	}
	var w wire.World
	if err := f.Decode(&w); err != nil || len(w.Numbers) != 1 {
		return 0, fmt.Errorf("%+v, %w", w, err)
	}
	return w.Numbers[0], nil
}

// ignoreAll never ends by itself, though it beats.
func ignoreAll(a *fake.Agent) error {
	for i := 0; ; i++ {
		if err := a.Out.SendHeartbeat(time.Duration(i) * time.Second); err != nil {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-a.Ctx.Done():
			return a.Ctx.Err()
		}
	}
}

func TestRunSuccess(t *testing.T) {
	hello := func(a *fake.Agent) error {
		for _, r := range a.Job.Ranks {
			if err := errors.Join(a.Print(r.Rank, 1, fmt.Sprintf("hello from %d of %d on %s\n", r.Rank, a.Job.Size,
				a.Job.Host)), a.Print(r.Rank, 2, "no end")); err != nil {
				return err
			}
		}
		return succeed(a)
	}
	r, err := runOn(t, []*fake.Machine{serving(hello), serving(hello)}, nil)
	must.That(t, err == nil && r.Code() == 0 && r.Cause == nil && len(r.Exits) == 4, "%+v, %v", r, err)
	lines := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	slices.Sort(lines)
	want := []string{"0/1> hello from 0 of 4 on h0", "0/2> no end", "1/1> hello from 1 of 4 on h0", "1/2> no end",
		"2/1> hello from 2 of 4 on h1", "2/2> no end", "3/1> hello from 3 of 4 on h1", "3/2> no end"}
	check.That(t, slices.Equal(lines, want), "output %q", lines)
}

// recordJobs returns an agent that succeeds, and the jobs that it was sent, by host.
func recordJobs() (jobs map[string]wire.Job, agent func(a *fake.Agent) error) {
	var mu sync.Mutex
	jobs = map[string]wire.Job{}
	return jobs, func(a *fake.Agent) error {
		mu.Lock()
		jobs[a.Job.Host] = a.Job
		mu.Unlock()
		return succeed(a)
	}
}

func TestRunDescribesTheJobToEveryHost(t *testing.T) {
	jobs, note := recordJobs()
	_, err := runOn(t, []*fake.Machine{serving(note), serving(note)}, func(o *Options) {
		o.Programs = []Program{{Argv: []string{"a\xff", ""}, Wdir: "/a", Ranks: 1},
			{Argv: []string{"b"}, Wdir: "/b", Ranks: 3}}
		o.Programs[0].Drop = []string{"UNSET"}
		o.Programs[0].DropHere = []string{"OF_THIS_MACHINE"}
		o.Programs[1].Env = []string{"B=1"}
		o.Env = []string{"A=\xfe"}
		o.Stdin = strings.NewReader("")
	})
	must.OK(t, err)
	a := jobs["h0"]
	b := jobs["h1"]
	check.That(t, a.ID != "" && a.ID == b.ID && len(a.Key) == 32 && bytes.Equal(a.Key, b.Key) &&
		!bytes.Equal(a.Key, make([]byte, 32)), "ids %q and %q, keys %x and %x", a.ID, b.ID, a.Key, b.Key)
	check.That(t, slices.Equal(a.Stdin, []int{0}) && b.Stdin == nil,
		"stdin goes to ranks %d on h0 and %d on h1", a.Stdin, b.Stdin)
	must.That(t, len(a.Programs) == 2 && len(b.Programs) == 1, "programs %+v and %+v", a.Programs, b.Programs)
	if p := a.Programs[0]; p.Argv[0] != "a\xff" || len(p.Argv) != 2 || a.Env[0] != "A=\xfe" || p.Wdir != "/a" ||
		!slices.Contains(a.Drop, "SSH_CONNECTION") || !slices.Equal(p.Drop, []string{"UNSET"}) {
		t.Errorf("h0 was told %+v %q, drop %q", a.Programs, a.Env, a.Drop)
	}
	if p := b.Programs[0]; p.Argv[0] != "b" || p.Env[0] != "B=1" || p.Wdir != "/b" {
		t.Errorf("h1 was told %+v", p)
	}
	check.Equal(t, fmt.Sprint(a.Ranks, b.Ranks), "[{0 0 0 2 0 } {1 1 0 2 1 }] [{2 0 1 2 0 } {3 1 1 2 0 }]")
	check.Equal(t, fmt.Sprint(a.Shares, b.Shares), "[1 3] [1 3]")
	check.That(t, a.Size == 4 && a.Hosts == 2 && a.Grace == 5*time.Second, "h0 was told %+v", a)
}

func TestRunEndsEveryHostWhenOneRankFails(t *testing.T) {
	var told atomic.Value
	fail := func(a *fake.Agent) error {
		if err := a.Exit(wire.Exit{Rank: 1, Code: 42}); err != nil {
			return err
		}
		if _, err := a.Expect(wire.TypeStop); err != nil {
			return err
		}
		return errors.Join(a.Exit(wire.Exit{Rank: 0, Signal: 15, Stopped: true}), a.Out.Send(wire.TypeDone, 0, nil),
			a.UntilEOF())
	}
	watch := func(a *fake.Agent) error {
		f, err := a.Expect(wire.TypeAbort)
		if err != nil {
			return err
		}
		told.Store(string(f.Payload))
		return obey(a)
	}
	r, err := runOn(t, []*fake.Machine{serving(fail), serving(watch)}, nil)
	check.That(t, err == nil && r.Code() == 42 && r.Cause != nil && r.Cause.Rank == 1 && r.Cause.Host == "h0",
		"%+v, %v", r, err)
	want := `{"rank":1,"host":"h0","cause":"exited with code 42"}`
	check.That(t, told.Load() == want, "the other host was told %v", told.Load())
}

func TestRunStopsWhenTheUserWants(t *testing.T) {
	for name, tc := range map[string]struct {
		life func(*fake.Agent) error
		send []Stop // one each second
		code int
		took time.Duration
		left int
	}{
		"in order": {obey, []Stop{{Reason: Interrupted}}, 130, time.Second, 0},
		"agents that do not obey": {ignoreAll, []Stop{{Reason: Terminated}}, 143,
			time.Second + 5*time.Second + core.StopMargin, 2},
		"the user does not wait": {ignoreAll, []Stop{{Reason: Interrupted}, {Interrupted, true}}, 130,
			2*time.Second + core.StopMargin, 2},
		"a time limit, then ^C ^C": {ignoreAll, []Stop{{Reason: TimedOut}, {Interrupted, true}}, 124,
			2*time.Second + core.StopMargin, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := runOn(t, []*fake.Machine{serving(tc.life), serving(tc.life)}, func(o *Options) {
				stops := make(chan Stop)
				o.Stops = stops
				go func() {
					for _, s := range tc.send {
						time.Sleep(time.Second)
						stops <- s
					}
				}()
			})
			check.That(t, err == nil && r.Code() == tc.code && len(r.Unconfirmed) == tc.left, "%+v, %v", r, err)
			check.That(t, r.took >= tc.took && r.took <= tc.took+2*time.Second+2*core.TickTime,
				"took %v, want %v and what it takes to part", r.took, tc.took)
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := serving(obey)
		m.Disk = fake.NewDisk(map[string]string{"/opt/gorun": "build one"})
		plan, _ := plan.New([]hostfile.Host{{Name: "h0", Slots: 1}}, Request{})
		time.AfterFunc(time.Second, cancel)
		r, err := Run(ctx, plan, Options{
			Grace:    5 * time.Second,
			Programs: []Program{{Argv: []string{"x"}, Ranks: 1}},
			Stdout:   io.Discard,
			Stderr:   io.Discard,
			Reach: Reach{
				Dial: func(context.Context, hostfile.Host) (Host, error) { return m, nil },
				Exe:  testExecutable(),
			},
		})
		check.That(t, err == nil && r.Code() == 143, "%+v, %v", r, err)
	})
}

// A host that is lost is named with what is known about where it is.
func TestRunReportsALostHost(t *testing.T) {
	for name, tc := range map[string]struct {
		life func(a *fake.Agent) error
		want string
	}{
		"the agent is killed": {func(*fake.Agent) error {
			return fake.ExitStatus(137)
		}, "host h1: the agent was killed or failed (exit code 137) (pod w-1 on node n2)"},
		"the connection breaks": {func(*fake.Agent) error {
			return errors.New("broken pipe")
		}, "host h1: lost the connection to the agent: broken pipe (pod w-1 on node n2)"},
		"the agent just ends": {func(*fake.Agent) error {
			return nil
		}, "host h1: the agent ended too early (pod w-1 on node n2)"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := runOn(t, []*fake.Machine{serving(obey), serving(tc.life)}, func(o *Options) { o.Where = locate })
			check.That(t, err == nil && r.Code() == CodeLaunch && r.Cause != nil &&
				strings.HasPrefix(r.Cause.String(), tc.want), "%v: %v, code %d", err, r.Cause, r.Code())
			check.That(t, r.took <= 3*time.Second, "took %v", r.took)
		})
	}
}

// locate is what is known of where hosts are.
func locate(host string) string { return map[string]string{"h1": "pod w-1 on node n2"}[host] }

// An agent that hangs on a live connection is abandoned after core.HungTime, even if it is the last
// one.
func TestRunGivesUpAHungAgent(t *testing.T) {
	// outside the bubble, so in real time
	stop := time.AfterFunc(20*time.Second, func() { panic("Run does not return") })
	defer stop.Stop()
	silent := func(a *fake.Agent) error { return a.UntilEOF() }
	r, err := runOn(t, []*fake.Machine{serving(silent)}, nil)
	check.That(t, err == nil && r.Code() == CodeLaunch && r.Cause != nil &&
		strings.HasPrefix(r.Cause.String(), "host h0: no word from the agent for "), "%+v, %v", r, err)
	check.That(t, r.took >= core.HungTime && r.took <= core.HungTime+5*time.Second, "took %v", r.took)
}

// Agents that are ready must hear from the launcher while slow hosts get ready, or
// their lease of 60 s ends (--start-timeout may be longer).
func TestRunBeatsWhileHostsGetReady(t *testing.T) {
	var longest time.Duration
	ready := &fake.Machine{Serve: func(a *fake.Agent) error {
		if _, err := a.Expect(wire.TypeJob); err != nil {
			return err
		}
		if err := a.Out.SendMessage(wire.TypeReady, wire.Ready{}); err != nil {
			return err
		}
		for last := time.Now(); ; last = time.Now() {
			f, err := a.Frames.Next()
			if err != nil {
				return err
			}
			longest = max(longest, time.Since(last))
			if f.Type == wire.TypeStart {
				return a.Finish(wire.Exit{})
			}
		}
	}}
	slow := &fake.Machine{Serve: func(a *fake.Agent) error {
		time.Sleep(100 * time.Second)
		if err := a.Ready(); err != nil {
			return err
		}
		return succeed(a)
	}}
	_, err := runOn(t, []*fake.Machine{ready, slow}, func(o *Options) { o.StartTimeout = 300 * time.Second })
	check.That(t, err == nil && longest <= 10*time.Second, "%v; an agent heard nothing for %v", err, longest)
}

// testExecutable is gorun itself, build one.
func testExecutable() Executable {
	return Executable{Path: "/opt/gorun", Build: "one", Hash: func() (string, error) {
		return "0123456789abcdef0123", nil
	}}
}
