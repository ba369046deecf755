package launcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/launcher/connect"
	"github.com/gorun/gorun/launcher/survey"
)

// Hosts for whose connections there were too few files counted as lost.
func TestElasticJobNeedsFiles(t *testing.T) {
	const many = 1 << 40 // slots, for which no limit is enough
	small := hostfile.Host{Name: "h0", Slots: 2}
	large := hostfile.Host{Name: "h1", Slots: many}
	var short *connect.FilesError
	if _, err := RunElastic(t.Context(), elasticOf(many, small, large),
		Options{}); !errors.As(err, &short) {
		t.Errorf("err is %v", err)
	}
	var notes []string
	settings := elasticOf(2, small, large)
	m := serving(succeed)
	r, err := elasticJobOn(t, m, settings, func(o *Options) {
		o.Note = func(text string) { notes = append(notes, text) }
		o.Dial = func(_ context.Context, h hostfile.Host) (Host, error) {
			check.That(t, h.Name == "h0", "%s is dialled", h.Name)
			return m, nil
		}
	})
	check.That(t, err == nil && r.Code() == 0 && len(r.Exits) == 2 && len(notes) == 1 &&
		strings.Contains(notes[0], "the last 1 host of the list"), "%+v, %v, %q", r, err, notes)
}

// A job of many hosts sets up as many connections at a time as any other, and not all at once.
func TestConnectionsSetUpAtATime(t *testing.T) {
	var hosts []hostfile.Host
	for i := range 3 * connect.Limit {
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
		switch kind {
		case "plain":
			machines := slices.Repeat([]*fake.Machine{m}, len(hosts))
			r, err := runOn(t, machines, set)
			succeeds(t, r.Result, err)
		case "elastic":
			r, err := elasticJobOn(t, m, elasticOf(len(hosts), hosts...), set)
			succeeds(t, r, err)
		case "check":
			synctest.Test(t, func(t *testing.T) {
				m.Disk = fake.NewDisk(map[string]string{"/opt/gorun": "build one"})
				opts := Options{Reach: Reach{Exe: testExecutable()}}
				set(&opts)
				for _, c := range survey.Check(t.Context(), hosts, opts.Reach) {
					check.That(t, c.Err == nil, "%+v", c)
				}
			})
		}
		check.That(t, most.Load() == connect.Limit, "%s: %d at a time, want %d", kind, most.Load(), connect.Limit)
	}
}
