package connect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

// D12: the user hears after 5 s which hosts are slow, once for each step, and other hosts go on.
func TestSlowHostsAreReportedOncePerStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"f1", "f2", "f3"}
		began := time.Now()
		var notes []string
		note := func(text string) { notes = append(notes, fmt.Sprint(time.Since(began))+" "+text) }
		slow := func(d time.Duration, which string) func(context.Context, int) error {
			return func(_ context.Context, i int) error {
				if strings.Contains(which, names[i]) {
					time.Sleep(d)
				}
				return nil
			}
		}
		var others time.Duration
		ready := func(_ context.Context, i int) error {
			if i == 0 {
				others = time.Since(began)
			}
			return nil
		}
		errs := EveryHost(t.Context(), names, note, Step{"connecting", slow(12*time.Second, "f2 f3")},
			Step{"getting ready", slow(7*time.Second, "f3")}, Step{"waiting", ready})
		want := "5s f2, f3: still connecting after 5 s|17s f3: still getting ready after 5 s"
		check.That(t, errors.Join(errs...) == nil && strings.Join(notes, "|") == want, "%v, notes %q", errs, notes)
		check.Equal(t, others, 0, "f1 waited")
	})
}
