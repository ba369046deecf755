package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
)

// Skip skips the test for the given reason. With CI=true in the environment it fails instead, since
// CI must test everything.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("may not skip in CI: %s", reason)
	}
	t.Skip(reason)
}

// Need skips the test unless all the programs are in the PATH.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			Skip(t, "needs "+p)
		}
	}
}

// NeedRoot skips the test unless root runs it, which can be another user too.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		Skip(t, "needs root to be another user too")
	}
}

// NeedKernel skips the test in the emulator qemu-user (make arm-test), which does not pass on to
// the kernel what it needs.
func NeedKernel(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("GORUN_EMULATED") != "" {
		t.Skip("qemu-user has no " + what)
	}
}

// MustLoopback is [Loopback] for a test: it ends with the test, skips it on a machine without sshd,
// and prints the sshds' logs if it fails.
func MustLoopback(t testing.TB, specs ...Spec) *Cluster {
	t.Helper()
	return must(t, Loopback, specs)
}

// MustNamespaces is [Namespaces] for a test, like [MustLoopback].
func MustNamespaces(t testing.TB, specs ...Spec) *Cluster {
	t.Helper()
	return must(t, Namespaces, specs)
}

// MustNamespacesAs is [NamespacesAs] for a test, like [MustLoopback].
func MustNamespacesAs(t testing.TB, uid int, specs ...Spec) *Cluster {
	t.Helper()
	return must(t, func(ctx context.Context, specs ...Spec) (*Cluster, error) {
		return NamespacesAs(ctx, uid, specs...)
	}, specs)
}

func must(t testing.TB, up func(context.Context, ...Spec) (*Cluster, error), specs []Spec) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts SSH hosts; -short leaves them out")
	}
	c, err := up(t.Context(), specs...)
	var missing *MissingError
	if errors.As(err, &missing) {
		Skip(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			logSSHD(t, c)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func logSSHD(t testing.TB, c *Cluster) {
	for _, h := range c.Hosts {
		text, _ := os.ReadFile(h.Log)
		t.Logf("sshd of %s:\n%s", h.Name, text)
	}
}
