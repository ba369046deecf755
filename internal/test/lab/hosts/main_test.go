package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// TestMain lets the test binary be the command itself.
func TestMain(m *testing.M) {
	if os.Getenv("GORUN_LAB_HOSTS") != "" {
		main()
	}
	os.Exit(m.Run())
}

func hosts(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "GORUN_LAB_HOSTS=1")
	return cmd
}

// needHosts skips the test where hosts cannot start.
func needHosts(t *testing.T) {
	t.Helper()
	lab.MustLoopback(t, lab.Spec{}).Close()
}

func TestRunsCommandWithHosts(t *testing.T) {
	needHosts(t)
	lab.Need(t, "ssh")
	cmd := hosts(t, "-n", "3", "--", "sh", "-c",
		`ssh -F {config} f3 echo hello && test -f "$LAB_SSH_CONFIG" && echo "$LAB_SSH_CONFIG" && exit 9`)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	must.That(t, errors.As(err, &exit) && exit.ExitCode() == 9,
		"%v, want the command's exit code 9: %s", err, stderr.String())
	word, config, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	check.That(t, word == "hello", "stdout is %q", out)
	check.That(t, strings.HasPrefix(stderr.String(), "hosts: hosts up: f1=127.") &&
		strings.Count(stderr.String(), "\n") == 1, "stderr is %q", stderr.String())
	_, err = os.Stat(config)
	check.That(t, os.IsNotExist(err), "%s is left", config)
}

func TestPassesSignalsOn(t *testing.T) {
	needHosts(t)
	for sig, want := range map[syscall.Signal]int{syscall.SIGTERM: 7, syscall.SIGINT: 8,
		syscall.SIGHUP: 128 + int(syscall.SIGHUP)} {
		cmd := hosts(t, "-n", "1", "--", "sh", "-c",
			"trap 'exit 7' TERM; trap 'exit 8' INT; echo up; while :; do sleep 0.01; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal sends what we send
		_, err := lab.Start(t, cmd).Line()
		check.OK(t, err)
		cmd.Process.Signal(sig)
		cmd.Wait()
		check.Equal(t, cmd.ProcessState.ExitCode(), want, "after", sig, "exit code")
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"-n", "0", "--", "true"}, {"-x"}} {
		cmd := hosts(t, args...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != exitUsage || !strings.Contains(string(out), "usage: hosts") {
			t.Errorf("%v: exit code %d: %s", args, code, out)
		}
	}
	needHosts(t)
	cmd := hosts(t, "--", "/nonexistent/program")
	out, _ := cmd.CombinedOutput()
	check.That(t, cmd.ProcessState.ExitCode() == exitNotFound, "exit code %d: %s", cmd.ProcessState.ExitCode(), out)
}
