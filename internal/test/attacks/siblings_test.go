package attacks

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
)

// Programs of another user beside gorun, in a folder such as /tmp, are neither run nor loaded, here and on hosts.
func TestProgramsOfOthersBesideGorunAreNotRun(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	s.as(0, `chmod 1777 open && : >wins && chmod 666 wins`)
	s.as(victim, `cp `+command.Binary("gorun")+` open/gorun`)
	evil := "#!/bin/sh\nid -u >>" + filepath.Join(c.Dir, "wins") + "\necho '{}'\n"
	for _, name := range []string{"gorun-bench", "gorun-gpu", "gorun-ompi4.so"} {
		path := filepath.Join(s.dir, "open", name)
		if err := os.WriteFile(path, []byte(evil), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, attacker, attacker); err != nil {
			t.Fatal(err)
		}
	}
	s.as(attacker, `open/gorun-gpu && grep -x 65533 wins && : >wins`) // else nothing is shown
	// gorun-gpu is asked on hosts where /proc has GPUs.
	if out, err := onAs(t, c, "f1", 0, `mount -t tmpfs tmpfs /proc/driver && mkdir -p /proc/driver/nvidia/gpus/0000:07:00.0 &&
		printf 'Model: NVIDIA A100\nGPU UUID: GPU-1\nDevice Minor: 0\n' >/proc/driver/nvidia/gpus/0000:07:00.0/information`).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	gorun := filepath.Join(c.Dir, "open/gorun")
	for _, tc := range []struct {
		code int
		name string
		args []string
	}{ // a job goes on without gorun-gpu, and with -v says why
		{2, "gorun-bench", []string{"bench", "allreduce", "--device", "cuda", "-np", "1"}},
		{2, "gorun-ompi4.so", []string{"--mpi", "ompi4", "-np", "1", "true"}},
		{1, "gorun-gpu", []string{"gpus", "-H", "f1"}},
		{0, "gorun-gpu", []string{"-v", "-H", "f1", "--gpus-per-rank", "1", "true"}},
	} {
		command.StartPath(t, c, gorun, nil, tc.args...).Want(tc.code, "use "+filepath.Join(c.Dir, "open", tc.name)+": not safe, others can change ", "user 65533")
	}
	if wins := s.as(0, `cat wins`); wins != "" {
		t.Errorf("who ran the attacker's programs: %q", wins)
	}
}
