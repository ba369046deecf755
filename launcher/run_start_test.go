package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/route"
)

func TestRunStartsNothingUnlessEveryHostIsReady(t *testing.T) {
	refuse := func(code int, what string) *fake.Machine {
		return &fake.Machine{Serve: func(a *fake.Agent) error {
			if _, err := a.Expect(wire.TypeJob); err != nil {
				return err
			}
			return a.Out.SendMessage(wire.TypeRefuse, wire.Refuse{Code: code, What: what})
		}}
	}
	var mu sync.Mutex
	var ends []error
	ready := &fake.Machine{Serve: func(a *fake.Agent) error {
		err := a.Ready()
		mu.Lock()
		ends = append(ends, err)
		mu.Unlock()
		return err
	}}
	_, err := runOn(t, []*fake.Machine{ready, refuse(127, "no program"), refuse(127, "none here")}, nil)
	var launch *LaunchError
	must.That(t, errors.As(err, &launch) && launch.Code() == 127 && len(launch.Hosts) == 2, "%v", err)
	want := "cannot start the job: h1: no program; h2: none here"
	check.Equal(t, err.Error(), want)
	check.That(t, len(ends) == 1 && errors.Is(ends[0], io.EOF),
		"the host that was ready: %v, want the end of its stdin", ends)
}

// TestRunEndsThoughAReadyAgentGoesOnTalking guards against a wait for an agent that goes on
// sending heartbeats while another host is slow to fail: the launcher no longer reads its frames.
func TestRunEndsThoughAReadyAgentGoesOnTalking(t *testing.T) {
	chatty := &fake.Machine{Serve: func(a *fake.Agent) error {
		if _, err := a.Expect(wire.TypeJob); err != nil {
			return err
		}
		if err := a.Out.SendMessage(wire.TypeReady, wire.Ready{}); err != nil {
			return err
		}
		return ignoreAll(a)
	}}
	slow := &fake.Machine{Serve: func(*fake.Agent) error {
		time.Sleep(5 * time.Second)
		return fake.ExitStatus(3)
	}}
	r, err := runOn(t, []*fake.Machine{chatty, slow}, nil)
	var launch *LaunchError
	check.That(t, errors.As(err, &launch) && len(launch.Hosts) == 1 && launch.Hosts[0].Host == "h1", "%v", err)
	check.That(t, r.took <= 7*time.Second, "took %v", r.took)
}

func TestRunListsHostsThatCannotBeReached(t *testing.T) {
	refused := errors.New("connection refused")
	_, err := runOn(t, []*fake.Machine{serving(succeed), {}, {}}, func(o *Options) {
		o.Where = locate
		dial := o.Dial
		o.Dial = func(ctx context.Context, h hostfile.Host) (Host, error) {
			if h.Name != "h0" {
				return nil, refused
			}
			return dial(ctx, h)
		}
	})
	var launch *LaunchError
	check.That(t, errors.As(err, &launch) && launch.Code() == CodeLaunch && errors.Is(launch.Hosts[0].Err, refused) &&
		err.Error() == "cannot start the job: h1: connection refused (pod w-1 on node n2); h2: connection refused",
		"%v", err)
}

func TestRunGivesUpOnASlowStart(t *testing.T) {
	mute := &fake.Machine{Serve: func(a *fake.Agent) error { return a.UntilEOF() }} // never ready
	r, err := runOn(t, []*fake.Machine{serving(succeed), mute}, func(o *Options) { o.StartTimeout = 20 * time.Second })
	check.That(t, err != nil && err.Error() == "cannot start the job: h1: not started within 20s (--start-timeout)",
		"%v", err)
	check.Equal(t, r.took, 20*time.Second, "took")
}

func TestRunStopsBeforeTheStart(t *testing.T) {
	mute := &fake.Machine{Serve: func(a *fake.Agent) error { return a.UntilEOF() }}
	stops := make(chan Stop, 1)
	r, err := runOn(t, []*fake.Machine{serving(succeed), mute}, func(o *Options) {
		o.Stops = stops
		stops <- Stop{Reason: Interrupted}
	})
	var stopped *StoppedError
	check.That(t, errors.As(err, &stopped) && stopped.Reason == Interrupted && r.took == 0, "%v after %v", err, r.took)
}

// networked is machine n with two interfaces, which SSH reached on the first; its agent is kept.
func networked(n int, agents []*fake.Agent) *fake.Machine {
	m := serving(func(a *fake.Agent) error {
		agents[n-1] = a
		return succeed(a)
	})
	m.Reached = fmt.Sprintf("10.0.0.%d", n)
	m.Addresses = interfaces("eth0", fmt.Sprintf("10.0.0.%d/16", n), "ib0", fmt.Sprintf("10.9.0.%d/16", n))
	return m
}

// interfaces are loopback and two more, that are up.
func interfaces(name1, prefix1, name2, prefix2 string) []wire.Address {
	return []wire.Address{{Interface: "lo", Prefix: netip.MustParsePrefix("127.0.0.1/8"), Up: true, Loopback: true},
		{Interface: name1, Prefix: netip.MustParsePrefix(prefix1), Up: true},
		{Interface: name2, Prefix: netip.MustParsePrefix(prefix2), Up: true}}
}

func TestRunTellsEveryHostItsAddresses(t *testing.T) {
	both := []string{"10.0.0.1 10.9.0.1", "10.0.0.2 10.9.0.2", "10.0.0.1"}
	for asked, want := range map[string][]string{
		"":           both,
		"ib0":        {"10.9.0.1", "10.9.0.2", "10.9.0.1"},
		"10.0.0.0/8": both,
		"eth0,ib0":   both,
	} {
		agents := make([]*fake.Agent, 2)
		var mu sync.Mutex
		var traced []string
		r, err := runOn(t, []*fake.Machine{networked(1, agents), networked(2, agents)}, func(o *Options) {
			o.Network, _ = route.ParseNetwork(asked)
			o.Trace = func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				traced = append(traced, fmt.Sprintf(format, args...))
			}
		})
		must.That(t, err == nil && r.Code() == 0, "%+v, %v", r, err)
		for i, a := range agents {
			if got := strings.Join(a.Start.Addrs, " "); got != want[i] || a.Start.MasterAddr != want[2] ||
				a.Start.MasterPort != 4000 {
				t.Errorf("%q: host %d got %q: %+v", asked, i, got, a.Start)
			}
			check.Equal(t, a.Job.AllNetworks, asked == "eth0,ib0", asked, "the host uses several networks")
		}
		line := "h1: ranks reach it at 10.9.0.2 (ib0)"
		check.That(t, asked != "ib0" || slices.Contains(traced, line), "%q lacks %q", traced, line)
	}
}

// When a host has no address that was asked for, nothing is started anywhere, and
// every such host is named.
func TestRunNeedsTheNetworkOnEveryHost(t *testing.T) {
	agents := make([]*fake.Agent, 3)
	machines := []*fake.Machine{networked(1, agents), networked(2, agents), networked(3, agents)}
	machines[0].Addresses = interfaces("ib7", "10.7.0.1/16", "eth0", "10.0.0.1/16")
	change := func(o *Options) { o.Network, _ = route.ParseNetwork("ib7") }
	_, err := runOn(t, machines, change)
	var launch *LaunchError
	must.That(t, errors.As(err, &launch) && len(launch.Hosts) == 2 && launch.Hosts[0].Host == "h1" &&
		launch.Hosts[1].Host == "h2" && launch.Code() == CodeLaunch, "%v", err)
	if want := "h2: no address for ranks to use: --network-interface asks for ib7, and the host has lo 127.0.0.1/8, " +
		"eth0 10.0.0.3/16, ib0 10.9.0.3/16"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %q", err, want)
	}
	for i, a := range agents {
		check.That(t, a == nil, "host %d was started: %+v", i, a)
	}
}

// A job runs on a machine that is listed under two names, with a note to the user.
func TestMachineUnderTwoNamesIsReported(t *testing.T) {
	for boot, want := range map[string]int{"b": 1, "": 0} {
		machines := []*fake.Machine{serving(succeed), serving(succeed)}
		for _, m := range machines {
			m.Boot = boot
		}
		var notes []string
		r, err := runOn(t, machines, func(o *Options) {
			o.Note = func(text string) { notes = append(notes, text) }
		})
		check.That(t, err == nil && r.Code() == 0, "%v, %v", r, err)
		check.That(t, len(notes) == want && (want != 1 || strings.HasPrefix(notes[0],
			"h0 and h1 are one machine (machine)")), "boot %q: %q", boot, notes)
	}
}
