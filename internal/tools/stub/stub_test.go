package stub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/buildid"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/environ"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// programs holds the name of the variable with the folder of the built gorun.
const programs = "GORUN_STUB_BIN"

func TestMain(m *testing.M) {
	os.Exit(lab.RunBuilt(m, func(dir string) error {
		return errors.Join(lab.BuildStatic("../../..", dir, "./cmd/gorun"), os.Setenv(programs, dir))
	}))
}

// run runs gorun with the hosts of spec, and returns its exit code and what it printed.
func run(t *testing.T, spec Spec, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	environ.Quiet(t)
	gorun := filepath.Join(os.Getenv(programs), "gorun")
	var err error
	spec.Build = must.Get(buildid.Of(gorun))(t)
	hosts, err := Start(t.TempDir(), spec)
	must.OK(t, err)
	defer hosts.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, gorun, append([]string{"-F", hosts.ConfigFile, "--hostfile", hosts.HostFile,
		"--start-timeout", "5m",
		"-np", fmt.Sprint(spec.Hosts * spec.Slots)}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &errs
	if err := cmd.Run(); cmd.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("%v: %.2000s", err, errs.String())
	}
	got := hosts.Reached()
	check.That(t, got == spec.Hosts, "%d agents were started on %d hosts", got, spec.Hosts)
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestJobOnManyHosts(t *testing.T) {
	code, stdout, stderr := run(t, Spec{
		Hosts: 200,
		Slots: 8,
		Fence: 32,
		Lines: 2,
		Fail:  -1,
	}, "--summary", "true")
	check.That(t, code == 0 && strings.Count(stdout, "\n") == 3200,
		"exit code %d after %d lines: %.2000s", code, strings.Count(stdout, "\n"), stderr)
	check.That(t, strings.Contains(stderr, "1600: 0-1599  200 hosts  code 0"), "the summary is %.2000s", stderr)
}

func TestFailureOnManyHostsIsShort(t *testing.T) {
	code, _, stderr := run(t, Spec{Hosts: 200, Slots: 8, Fail: 0}, "--summary", "true")
	check.That(t, code == 3 && strings.Count(stderr, "\n") <= 20,
		"exit code %d, and %d lines: %.4000s", code, strings.Count(stderr, "\n"), stderr)
}
