package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/golden"

	"github.com/gorun/gorun/internal/test/command"
)

// New ranks get their own files and the prefix that the user chose; files of ranks that left are kept.
func testElasticOutput(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "hosts")
	say := func(text string) {
		t.Helper()
		if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		return string(text)
	}
	say("localhost:2\n")
	r := command.Start(t, nil, append([]string{"-np", "2", "--min-np", "1", "--max-np", "3", "--prefix", "horovod", "--stdout-file", dir + "/%l.%2r",
		"--host-discovery-script", "cat " + list}, elasticRank(t, 25)...)...)
	command.Await(t, "the first epoch", func() bool { return strings.Contains(read("0.00"), "epoch 1 rank 0 of 2 ") })
	say("localhost:3\n")
	command.Await(t, "the rank that was added", func() bool { return strings.Contains(read("2.02"), "epoch 2 rank 2 of 3 ") })
	say("localhost:1\n")
	command.Await(t, "the ranks' end", func() bool { return strings.Contains(read("0.00"), "epoch 3 rank 0 of 1 ") })
	r.Want(0, "localhost has 3 slots", "localhost has 1 slot").NothingLeft(5 * time.Second)
	if r.Out.Len() > 0 {
		t.Errorf("shown: %s", golden.Clip(r.Out.String()))
	}
}

// Killing the agent of one of two local ranks loses its host. The other agent must end although it has no connection to close.
func testElasticLocalAgentIsKilled(t *testing.T) {
	r := command.Start(t, nil, append([]string{"-np", "2", "--min-np", "1", "-H", "localhost:2"}, elasticRank(t, 60)...)...)
	first := awaitEpoch(t, r, 1, 2, 20*time.Second)
	for pid := first[1].pid; pid > 1; pid = parentOf(t, pid) {
		if strings.Contains(command.ProcFile(pid, "cmdline"), "__serve") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			break
		}
	}
	r.Want(125, "host localhost: ", "no rank that has the job's state is left").NothingLeft(5 * time.Second)
}
