package launcher

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
)

// The user wants the end, and then at once, while a process is being started. It was told to end
// with all the time there is.
func TestHasteHoldsForProcessesToCome(t *testing.T) {
	for _, tc := range []struct {
		second bool
		want   time.Duration
	}{{false, 5 * time.Second}, {true, 0}} {
		told := make(chan time.Duration, 2)
		m := &fake.Machine{Serve: func(a *fake.Agent) error {
			time.Sleep(800 * time.Millisecond)
			if err := a.Ready(); err != nil {
				return nil // it was called off
			}
			f, err := a.Expect(wire.TypeStop)
			if err != nil {
				return err
			}
			var stop wire.Stop
			if err := f.Decode(&stop); err != nil {
				return err
			}
			told <- stop.Grace
			return a.Finish(wire.Exit{Signal: 15, Stopped: true})
		}}
		r, err := elasticOn(t, m, func(o *Options) {
			stops := make(chan Stop, 2)
			o.Stops = stops
			time.AfterFunc(300*time.Millisecond, func() { stops <- Stop{Reason: Interrupted} })
			if tc.second {
				time.AfterFunc(600*time.Millisecond, func() { stops <- Stop{Reason: Interrupted, Now: true} })
			}
		})
		check.That(t, err == nil && r.Stopped == Interrupted && len(told) == 2 && <-told == tc.want &&
			<-told == tc.want, "%+v, %v, want a grace of %v", r, err, tc.want)
	}
}

// flaky is a host where some sessions fail.
type flaky struct {
	*fake.Machine
	runs []error // how each goes; those after the last go well
	n    atomic.Int32
}

func (f *flaky) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if n := int(f.n.Add(1)); n <= len(f.runs) && f.runs[n-1] != nil {
		return f.runs[n-1]
	}
	return f.Machine.Run(ctx, argv, stdin, stdout, stderr)
}

// A host at work gets a slot more, for which it takes a second connection, and its sshd drops that
// at first (MaxStartups). The host counted as lost, and its ranks were ended. So it did where sshd
// opens no more sessions on the connection that there is.
func TestOneProcessNotStartedIsNoLostHost(t *testing.T) {
	dropped := errors.New("sshd has dropped it")
	for _, tc := range []struct {
		name   string
		before int // slots
		after  int
		dials  []error // how each goes; those after the last go well
		runs   []error // likewise each session
		ended  int     // processes that are ended, as they were started for an epoch that did not come about
	}{
		{"connection of a newcomer", 8, 9, []error{nil, dropped, dropped}, nil, 0},
		{"session of a newcomer", 2, 3, nil, []error{nil, nil, dropped}, 0},
		{"second connection of a job that begins", 9, 9, []error{nil, dropped}, nil, 8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var began time.Time
			dials := 0 // one at a time
			m := &fake.Machine{Serve: func(a *fake.Agent) error {
				time.Sleep(500 * time.Millisecond)
				if err := a.Ready(); err != nil {
					return nil // it was called off
				}
				return a.Live(began.Add(time.Minute))
			}}
			host := &flaky{Machine: m, runs: tc.runs}
			settings := elasticOf(tc.before, hostfile.Host{Name: "h0", Slots: tc.before})
			settings.Discover = func(context.Context) ([]hostfile.Host, error) {
				if time.Since(began) < 10*time.Second {
					return settings.Hosts, nil
				}
				return []hostfile.Host{{Name: "h0", Slots: tc.after}}, nil
			}
			r, err := elasticJobOn(t, m, settings, func(o *Options) {
				began = time.Now()
				o.Dial = func(context.Context, hostfile.Host) (Host, error) {
					if dials++; dials <= len(tc.dials) && tc.dials[dials-1] != nil {
						return nil, tc.dials[dials-1]
					}
					return host, nil
				}
			})
			well := 0
			ended := 0
			for _, e := range r.Exits {
				if e.Signal != 0 {
					ended++
				} else if e.Code == 0 {
					well++
				}
			}
			check.That(t, err == nil && r.Code() == 0 && len(r.Lost) == 0 && well == tc.after && ended == tc.ended &&
				dials > len(tc.dials), "%+v, %v; %d ended well, %d were ended, %d dials", r, err, well, ended, dials)
		})
	}
}

// Where none of a host's processes comes up it is the host that is lost, however many there were to
// be.
func TestHostWithoutConnectionIsLost(t *testing.T) {
	m := serving(succeed)
	settings := elasticOf(20, hostfile.Host{Name: "h0", Slots: 20})
	settings.Timeout = time.Minute
	for name, dial := range map[string]Dialer{
		"no connection": func(context.Context, hostfile.Host) (Host, error) {
			return nil, errors.New("no route to host")
		},
		"no session": func(context.Context, hostfile.Host) (Host, error) {
			return &flaky{Machine: m, runs: slices.Repeat([]error{errors.New("no route to host")}, 1000)}, nil
		},
	} {
		r, err := elasticJobOn(t, m, settings, func(o *Options) { o.Dial = dial })
		check.That(t, err == nil && r.Code() == CodeLaunch && len(r.Lost) != 0 && r.Lost[0].Host == "h0",
			"%s: %+v, %v", name, r, err)
	}
}

// The hosts that the job began with were known by name alone: who was to log in there, and at which
// port, was forgotten.
func TestFirstHostsAreDialledAsListed(t *testing.T) {
	want := hostfile.Host{
		Name:  "h0",
		User:  "alice",
		Port:  2222,
		Slots: 2,
		GPUs:  3,
	}
	settings := elasticOf(2, want)
	m := serving(succeed)
	r, err := elasticJobOn(t, m, settings, func(o *Options) {
		o.Dial = func(_ context.Context, got hostfile.Host) (Host, error) {
			check.Equal(t, got, want, "dialled as")
			return m, nil
		}
	})
	check.That(t, err == nil && len(r.Exits) == 2, "%+v, %v", r, err)
}
