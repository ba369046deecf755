package launcher

import (
	"context"
	"fmt"
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
		j := &job{plan: plan, loop: &loop{opts: Options{Note: func(text string) { told = append(told, fmt.Sprint(time.Since(began))+" "+text) }}}}
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
