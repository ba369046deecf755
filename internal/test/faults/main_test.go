package faults

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// TestMain builds the static gorun that users run, and the programs that the tests harm.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // these tests wait more than they work
	os.Exit(lab.RunBuilt(m, func(dir string) error {
		return errors.Join(lab.BuildStatic("../../..", dir, "./cmd/gorun", "./examples/...",
			"./internal/test/faults/rank"), os.Setenv("GORUN_E2E_BIN", dir))
	}))
}

func binary(name string) string { return filepath.Join(os.Getenv("GORUN_E2E_BIN"), name) }

// harness runs jobs on a cluster (nil: on this machine) and judges them.
type harness struct {
	t     *testing.T
	c     *lab.Cluster
	marks *Marks
}

// loopback and namespaces return a harness with n hosts.
func loopback(t *testing.T, n int) *harness {
	t.Helper()
	return newHarness(t, lab.MustLoopback(t, lab.Specs(n)...))
}

func namespaces(t *testing.T, n int) *harness {
	t.Helper()
	return newHarness(t, lab.MustNamespaces(t, lab.Specs(n)...))
}

func newHarness(t *testing.T, c *lab.Cluster) *harness { return &harness{t, c, &Marks{}} }

// row runs a subtest on the same hosts.
func (b *harness) row(name string, test func(t *testing.T, b *harness)) {
	b.t.Run(name, func(t *testing.T) { test(t, &harness{t, b.c, b.marks}) })
}

// must ends the test at an error.
func (b *harness) must(err error) {
	b.t.Helper()
	must.OK(b.t, err)
}

// gorun starts a job and its watch.
func (b *harness) gorun(args ...string) (*Job, *Watch) {
	b.t.Helper()
	argv := []string{binary("gorun")}
	if b.c != nil {
		argv = append(argv, "-F", "{config}")
	}
	return b.run(append(argv, args...)...)
}

// run starts gorun with a command line, and watches its processes.
func (b *harness) run(argv ...string) (*Job, *Watch) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	watch := NewWatch(b.c)
	watch.Alone = b.c != nil && len(b.c.Inside()) > 0
	j, err := b.marks.Start(ctx, b.c, nil, argv...)
	if err != nil {
		cancel()
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		check.OK(b.t, j.Close())
		cancel()
	})
	return j, watch
}

// await waits for the state that a fault needs.
func (b *harness) await(j *Job, what string, ready func() bool) {
	b.t.Helper()
	must.That(b.t, j.Await(20*time.Second, ready), "waited in vain for %s; stdout %q, stderr %q", what, &j.Out, &j.Err)
}

// judge reports every broken invariant as an error.
func (b *harness) judge(w *Watch, j *Job, injected time.Time, e Expect) Verdict {
	b.t.Helper()
	// Eight of these tests run at a time. docs/benchmarks.md has the figures of an idle machine.
	const slack = 2 * time.Second
	e.End += slack
	e.Clean += slack
	v := w.Judge(j, injected, e)
	for _, broken := range v.Violations {
		b.t.Errorf("%s", broken)
	}
	if b.t.Failed() {
		b.t.Logf("exit %d, %d ms to the end, %d ms to the last process; stderr:\n%s", v.Exit, v.EndMS, v.CleanMS,
			&j.Err)
	}
	return v
}
