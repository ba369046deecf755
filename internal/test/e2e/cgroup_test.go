//go:build cgroup

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/must"
)

// A rank reaches a real memory limit. The test needs root and a writable cgroup tree with the
// memory controller, so it runs on demand: go test -tags cgroup -run RealMemoryLimit
// ./internal/test/e2e
func TestRealMemoryLimit(t *testing.T) {
	tree := "/sys/fs/cgroup/memory"
	limit := "memory.limit_in_bytes"
	if _, err := os.Stat(tree); err != nil {
		tree = "/sys/fs/cgroup"
		limit = "memory.max"
	}
	group := filepath.Join(tree, fmt.Sprintf("gorun-test-%d", os.Getpid()))
	must.OK(t, os.Mkdir(group, 0o755))
	t.Cleanup(func() {
		check.OK(t, os.Remove(group))
	})
	must.OK(t, os.WriteFile(filepath.Join(group, limit), []byte("64M"), 0o644))
	_ = os.WriteFile(filepath.Join(group, "memory.swap.max"), []byte("0"), 0o644) // v1 has none
	r := command.Start(t, nil, "version").Want(0)                                 // only for its mark
	for what, script := range map[string]string{
		"rank 1 on localhost was killed by signal 9 (SIGKILL)": "exec tail /dev/zero",
		"rank 1 on localhost exited with code 137":             "tail /dev/zero; exit $?",
	} {
		cmd := exec.Command("sh", "-c",
			`echo $$ >"$1/cgroup.procs"; exec "$0" -np 2 --summary sh -c "[ \$RANK = 0 ] && exec sleep 60; $2"`,
			command.Binary("gorun"), group, script)
		cmd.Env = append(os.Environ(), r.Mark)
		said, _ := cmd.CombinedOutput()
		for _, want := range []string{what + ": its cgroup's memory limit of 64 MiB was reached (",
			"hint: its peak was ", "out of memory, the first to fail"} {
			check.That(t, cmd.ProcessState.ExitCode() == 137 && strings.Contains(string(said), want),
				"%s: %v, want %q:\n%s", script, cmd.ProcessState, want, said)
		}
	}
}
