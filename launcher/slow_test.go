package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/hostfile"
)

// D12: the user hears after 5 s which hosts are slow, once for each step, and other hosts go on.
func TestSlowHostsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := Plan{}
		for _, name := range []string{"f1", "f2", "f3"} {
			plan.Hosts = append(plan.Hosts, PlannedHost{Host: hostfile.Host{Name: name}})
		}
		began := time.Now()
		var told []string
		j := &job{plan: plan, opts: Options{Note: func(text string) { told = append(told, fmt.Sprint(time.Since(began))+" "+text) }}}
		var others time.Duration
		slow := func(d time.Duration, which string) func(context.Context, int) error {
			return func(_ context.Context, i int) error {
				if strings.Contains(which, plan.Hosts[i].Name) {
					time.Sleep(d)
				}
				return nil
			}
		}
		ready := func(_ context.Context, i int) error {
			if i == 0 {
				others = time.Since(began)
			}
			return nil
		}
		err := j.onEveryHost(t.Context(), step{"connecting", slow(12*time.Second, "f2 f3")}, step{"getting ready", slow(7*time.Second, "f3")}, step{"waiting", ready})
		if want := "5s f2, f3: still connecting after 5 s|17s f3: still getting ready after 5 s"; err != nil || strings.Join(told, "|") != want {
			t.Errorf("%v, told %q", err, told)
		}
		if others != 0 {
			t.Errorf("f1 waited %v", others)
		}
	})
}

func TestNoAgentHints(t *testing.T) {
	for _, tc := range []struct {
		stderr string
		err    error
		want   string
	}{
		{"", &silenceError{helloTime}, "--start-timeout"},
		{"sh: 1: ./gorun: Exec format error", errors.New("command exited with status 126"), "so must all hosts of a job be"},
		{"", fmt.Errorf("%w", &RefusedError{}), ""},
		{"whatever", io.EOF, ""},
	} {
		got := (&noAgentError{"/gorun", tc.stderr, tc.err}).Hint()
		if !strings.Contains(got, tc.want) || (tc.want == "") != (got == "") {
			t.Errorf("%v: hint %q", tc.err, got)
		}
	}
}

// D20: who gives a job more time to start gives slow login shells more, too.
func TestHelloTimeGrowsWithTheStartTimeout(t *testing.T) {
	for start, want := range map[time.Duration]time.Duration{0: helloTime, time.Minute: helloTime, 3 * time.Minute: 30 * time.Second} {
		if got := newStager(Options{StartTimeout: start}).hello; got != want {
			t.Errorf("%v: %v", start, got)
		}
	}
}
