package launcher

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/fake"
)

func TestFilesFor(t *testing.T) {
	for _, tt := range []struct {
		hosts int
		limit uint64
		want  string
	}{
		{256, 64, "connections to 256 hosts need about 536 open files, and gorun may have 64"},
		{256, 1024, ""},
		{20, 64, ""},
		{1, 20, "connections to 1 host need about 26 open files, and gorun may have 20"},
	} {
		got := ""
		if err := filesFor(tt.hosts, tt.hosts, tt.limit); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%d hosts, limit %d: %q, want %q", tt.hosts, tt.limit, got, tt.want)
		}
	}
}

func TestReachable(t *testing.T) {
	hosts := func(slots ...int) (all []hostfile.Host) {
		for i, n := range slots {
			all = append(all, hostfile.Host{Name: fmt.Sprint("h", i), Slots: n})
		}
		return all
	}
	for _, tt := range []struct {
		hosts []hostfile.Host
		most  int
		limit uint64
		want  int
		need  uint64 // 0: there is enough
	}{
		{hosts(8, 8, 8), math.MaxInt, 30, 3, 0},
		{hosts(8, 8, 8), math.MaxInt, 29, 2, 30},
		{hosts(8, 9, 8), math.MaxInt, 30, 2, 32}, // the second takes two connections
		{hosts(8, 9, 8), 3, 30, 3, 0},            // of which three are enough
		{hosts(4096), math.MaxInt, 1000, 0, 1048},
		{nil, math.MaxInt, 10, 0, 24},
	} {
		got, short := reachable(tt.hosts, tt.most, tt.limit)
		if len(got) != tt.want || (short != nil) != (tt.need > 0) || short != nil && short.Need != tt.need {
			t.Errorf("%v, at most %d, limit %d: %v, %v", tt.hosts, tt.most, tt.limit, got, short)
		}
	}
}

// Hosts for whose connections there were too few files counted as lost.
func TestElasticJobNeedsFiles(t *testing.T) {
	const many = 1 << 40 // slots, for which no limit is enough
	small, large := hostfile.Host{Name: "h0", Slots: 2}, hostfile.Host{Name: "h1", Slots: many}
	var short *FilesError
	if _, err := RunElastic(t.Context(), Elastic{Hosts: []hostfile.Host{small, large}, NP: many}, Options{}); !errors.As(err, &short) {
		t.Errorf("err is %v", err)
	}
	var notes []string
	settings := Elastic{Hosts: []hostfile.Host{small, large}, NP: 2}
	m := serving(succeed)
	elasticJobOn(t, m, settings, func(o *Options) {
		o.Note = func(text string) { notes = append(notes, text) }
		o.Dial = func(_ context.Context, h hostfile.Host) (Host, error) {
			if h.Name != "h0" {
				t.Errorf("%s is dialled", h.Name)
			}
			return m, nil
		}
	}, func(t *testing.T, r Result, err error) {
		if err != nil || r.Code() != 0 || len(r.Exits) != 2 || len(notes) != 1 || !strings.Contains(notes[0], "the last 1 host of the list") {
			t.Errorf("%+v, %v, %q", r, err, notes)
		}
	})
}

// A job of many hosts sets up as many connections at a time as any other, and not all at once.
func TestConnectionsSetUpAtATime(t *testing.T) {
	var hosts []hostfile.Host
	for i := range 3 * dialLimit {
		hosts = append(hosts, hostfile.Host{Name: fmt.Sprint("h", i), Slots: 1})
	}
	for _, kind := range []string{"plain", "elastic", "check"} {
		var now, most atomic.Int32
		m := serving(succeed)
		set := func(o *Options) {
			o.Dial = func(context.Context, hostfile.Host) (Host, error) {
				n := now.Add(1)
				defer now.Add(-1)
				for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
				}
				time.Sleep(time.Second)
				return m, nil
			}
		}
		ended := func(t *testing.T, r Result, err error) {
			if err != nil || r.Code() != 0 {
				t.Errorf("%s: %+v, %v", kind, r, err)
			}
		}
		switch kind {
		case "plain":
			machines := slices.Repeat([]*fake.Machine{m}, len(hosts))
			runOn(t, machines, set, func(t *testing.T, _ string, r Result, _ time.Duration, err error) { ended(t, r, err) })
		case "elastic":
			elasticJobOn(t, m, Elastic{Hosts: hosts, NP: len(hosts)}, set, ended)
		case "check":
			synctest.Test(t, func(t *testing.T) {
				m.Disk = fake.NewDisk(map[string]string{"/opt/gorun": "build one"})
				opts := Options{Exe: testExecutable()}
				set(&opts)
				for _, c := range Check(t.Context(), hosts, opts) {
					if c.Err != nil {
						t.Errorf("%+v", c)
					}
				}
			})
		}
		if most.Load() != dialLimit {
			t.Errorf("%s: %d at a time, want %d", kind, most.Load(), dialLimit)
		}
	}
}

// Who waits for a turn to connect and is not wanted any more does not wait on.
func TestTurnToConnectIsGivenUp(t *testing.T) {
	s := newSetups()
	for range dialLimit {
		s <- struct{}{}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStopped)
	if err := s.do(ctx, func() error { return nil }); !errors.Is(err, errStopped) {
		t.Errorf("err is %v", err)
	}
}
