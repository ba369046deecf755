package ring_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// A rank is killed in the middle of calls of each kind: at a moment by chance, or when so
// much of its own result has come. The others, which live in this process, check the
// results of all calls that did not fail.
// It is row R1 of the fault matrix.
func TestRankKilledInEveryCall(t *testing.T) {
	must.HaveTime(t)
	for i, l := range layouts() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			for k, f := range specs() {
				if !sampled(i + k) {
					continue
				}
				for round := range rounds(1) {
					random := rand.New(rand.NewPCG(uint64(i*len(specs())+k), uint64(round)))
					what := duty{Form: f.name, Way: []string{"plain", "started", "part"}[random.IntN(3)]}
					what.N = []int{1, 3000, 70_001, 400_000}[random.IntN(4)]
					what.Root = random.IntN(l.size)
					if random.IntN(2) == 0 {
						what.Reach = 1 + random.IntN(1000)
					}
					killRank(t, l, random, what)
				}
			}
		})
	}
}

// killRank runs a job in which one rank is a process that is killed.
func killRank(t *testing.T, l layout, random *rand.Rand, what duty) {
	d := l.job(t)
	victim := random.IntN(l.size)
	p := startRank(t, l, d, victim, what)
	comms := l.join(t, d, victim)
	others := what
	others.Reach = 0
	noticed := make([]time.Time, l.size)
	over := make(chan error, 1)
	go func() {
		over <- ringtest.Each(l.size, func(rank int) error {
			if rank == victim {
				return nil
			}
			err := others.work(comms[rank], nil, func() {})
			noticed[rank] = time.Now()
			return wantPeer(err, victim)
		})
	}()
	if _, err := p.Hear("running"); err != nil && what.Reach == 0 {
		t.Errorf("%+v, victim %d: %v", what, victim, err)
	}
	deadline := time.Duration(random.IntN(15_000)) * time.Microsecond
	if what.Reach > 0 {
		deadline = 2 * time.Second // for a rank that has no result to wait for
		if !endsItself(what, victim, l.size) {
			deadline = 0
		}
	}
	timer := time.AfterFunc(deadline, func() { _ = p.Process.Kill() })
	defer timer.Stop()
	state, err := p.Process.Wait()
	died := time.Now()
	check.That(t, err == nil && !state.Exited(), "%+v, victim %d: it ended with %v, %v", what, victim, state, err)
	check.OK(t, <-over, what, "victim", victim)
	for rank, at := range noticed {
		took := at.Sub(died)
		check.That(t, rank == victim || took <= soon, "%+v, victim %d: rank %d knew after %v", what, victim, rank, took)
	}
	closeAll(comms)
}

// endsItself reports whether a rank gets a result, so that it can end itself in the middle of a
// call.
func endsItself(d duty, rank, size int) bool {
	f := specOf(d.Form)
	if d.Way == "part" {
		rank = size - 1 - rank
	}
	s := position{
		rank: rank,
		size: size,
		root: d.Root,
		n:    d.N,
	}
	return f.out(s) > 0 && !(d.Form == "broadcast" && rank == d.Root)
}

// The cable of a host is pulled while data moves, while all wait for one rank, and while one sends
// more to such a rank than the kernel takes.
// It is row R2 of the fault matrix.
func TestVanishedHostIsDetected(t *testing.T) {
	must.HaveTime(t)
	lab.NeedKernel(t, "TCP_INFO")
	t.Parallel()
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	duties := map[string]duty{
		"moving": {Form: "allreduce", N: 1 << 18},
		"idle":   {Form: "barrier", Wait: true},
		"full":   {Form: "message", N: 4 << 20, Wait: true},
	}
	jobs := map[string][]*lab.Program{}
	for name, what := range duties {
		jobs[name] = startRemote(t, c, what)
	}
	time.Sleep(time.Second) // until the sockets are full
	must.OK(t, c.Cut(t.Context(), "f2"))
	cut := time.Now()
	for name, job := range jobs {
		for rank, p := range job {
			if duties[name].Wait && rank == 0 {
				continue
			}
			v, err := verdictOf(p)
			if took := v.At.Sub(cut); err != nil || v.Rank < 0 || took < time.Second || took > 8500*time.Millisecond {
				t.Errorf("%s: rank %d: %+v, %v after %v", name, rank, v, err, took)
			}
		}
	}
	// The rank that was busy with other things hears of it in its next call.
	for name, what := range duties {
		if !what.Wait {
			continue
		}
		late := time.Now()
		jobs[name][0].In.Close()
		v, err := verdictOf(jobs[name][0])
		took := v.At.Sub(late)
		check.That(t, err == nil && v.Rank >= 0 && took <= soon, "%s: rank 0: %+v, %v after %v", name, v, err, took)
	}
}

// startRemote starts a job of two ranks on each of two hosts, and returns when its calls are under
// way. If they are to wait it is rank 0 that does.
func startRemote(t *testing.T, c *lab.Cluster, what duty) (ranks []*lab.Program) {
	l := layouts()[2]
	d := l.job(t)
	agents := map[string]string{} // by host
	for rank := range l.size {
		host := c.Host([]string{"f1", "f2"}[rank/2])
		place := d.Rank(rank, host.Addr)
		if agents[host.Name] == "" {
			agents[host.Name] = listenIn(t, host.PID, d)
		}
		place.Agent = agents[host.Name]
		own := what
		own.Wait = what.Wait && rank == 0
		ranks = append(ranks, lab.StartRole(t, c.On(t.Context(), host.Name, os.Args[0]), own.role(t),
			place.Environ()...))
	}
	allRunning(t, ranks)
	return ranks
}

// listenIn serves d in the network of process pid, on its loopback address. The port is that of d,
// which refuses requests for another one.
func listenIn(t *testing.T, pid int, d *ringtest.Job) string {
	t.Helper()
	l, err := elsewhere(pid, func() (net.Listener, error) { return net.Listen("tcp", d.Rank(0, "127.0.0.1").Agent) })
	must.OK(t, err)
	d.Listen(l)
	return l.Addr().String()
}

// elsewhere opens a listener while this thread is in the network of process pid.
func elsewhere(pid int, listen func() (net.Listener, error)) (net.Listener, error) {
	runtime.LockOSThread()
	home, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		return nil, err
	}
	defer home.Close()
	there, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter the network of process %d: %w", pid, err)
	}
	l, err := listen()
	if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("come back: %w", err) // the thread stays locked, and ends
	}
	runtime.UnlockOSThread()
	return l, err
}

// A rank of many is killed; the blame goes round among the parts too.
// It is row R1 of the fault matrix.
func TestKilledRankIsNamedInNestedParts(t *testing.T) {
	onLayouts(t, func(t *testing.T, l layout) {
		comms := l.join(t, l.job(t))
		halves := split(t, comms, func(c *ring.Comm) (color, key int) { return c.Rank() % 2, -c.Rank() })
		all := split(t, comms, func(c *ring.Comm) (color, key int) { return 0, -c.Rank() })
		again := split(t, all, func(c *ring.Comm) (color, key int) { return 0, -c.Rank() })
		_ = halves
		victim := l.size - 2
		within(t, soon, func() {
			ringtest.All(t, l.size, func(i int) error {
				c := again[i] // twice turned round
				if i == victim {
					return comms[victim].Close()
				}
				err := ring.Barrier(ctx, c)
				if err := wantPeer(err, victim); err != nil {
					return err
				}
				return wantPeer(ring.Barrier(ctx, comms[i]), victim)
			})
		})
	})
}
