package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A cluster whose program is killed, while it starts or runs, leaves no process, file or cgroup.
func TestNothingIsLeft(t *testing.T) {
	parts(t)
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		when string // a line of output
	}{{"starting", ""}, {"running", "up\n"}} {
		t.Run(tc.name, func(t *testing.T) {
			before := left(t)
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), runsIn+"="+root, "TMPDIR="+t.TempDir())
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if tc.when == "" {
				time.Sleep(5 * time.Second)
			} else if line, err := bufio.NewReader(out).ReadString('\n'); line != tc.when {
				t.Errorf("%q, %v", line, err)
			}
			if slices.Equal(before, left(t)) {
				t.Error("nothing of a running cluster is seen, so nothing is shown")
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
				after := left(t)
				if slices.Equal(before, after) {
					break
				}
				if time.Since(begun) > 30*time.Second {
					t.Fatalf("left:\n%s", strings.Join(after, "\n"))
				}
			}
		})
	}
}

// left lists processes of clusters, and their cgroups.
func left(t *testing.T) (all []string) {
	t.Helper()
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range commands {
		text, _ := os.ReadFile(file)
		for _, mark := range []string{"gorun-kube-", "/kube-1"} {
			if strings.Contains(string(text), mark) {
				all = append(all, file)
				break
			}
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/gorun-kube-*", "/sys/fs/cgroup/*/gorun-kube-*",
		"/sys/fs/cgroup/*/*/gorun-kube-*"} {
		groups, _ := filepath.Glob(pattern)
		all = append(all, groups...)
	}
	return all
}
