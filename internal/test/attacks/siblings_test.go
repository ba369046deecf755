package attacks

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Programs of another user beside gorun, in a folder such as /tmp, are neither run nor loaded, here
// and on hosts.
func TestProgramsOfOthersBesideGorunAreNotRun(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	s.as(0, `chmod 1777 open && : >wins && chmod 666 wins`)
	s.as(victim, `cp `+command.Binary("gorun")+` open/gorun`)
	evil := "#!/bin/sh\nid -u >>" + filepath.Join(c.Dir, "wins") + "\necho '{}'\n"
	for _, name := range []string{"gorun-bench", "gorun-gpu", "gorun-mpir", "gorun-ompi4.so", "gorun-pmix"} {
		path := filepath.Join(s.dir, "open", name)
		must.OK(t, os.WriteFile(path, []byte(evil), 0o755))
		must.OK(t, os.Chown(path, attacker, attacker))
	}
	s.as(attacker, `open/gorun-gpu && grep -x 65533 wins && : >wins`) // else nothing is shown
	// gorun-gpu is asked on hosts where /proc has GPUs.
	if out,
		err := onAs(t, c, "f1", 0,
		`mount -t tmpfs tmpfs /proc/driver && mkdir -p /proc/driver/nvidia/gpus/0000:07:00.0 &&
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
		{2, "gorun-pmix", []string{"--mpi", "pmix", "-np", "1", "true"}},
		{124, "gorun-mpir", []string{"--debug", "--timeout", "5", "-np", "1", "true"}}, // the rank waits for a debugger
		{1, "gorun-gpu", []string{"gpus", "-H", "f1"}},
		{0, "gorun-gpu", []string{"-v", "-H", "f1", "--gpus-per-rank", "1", "true"}},
	} {
		command.StartPath(t, c, gorun, nil, tc.args...).Want(tc.code, "use "+filepath.Join(c.Dir, "open", tc.name)+
			": not safe, others can change ", "user 65533")
	}
	check.Equal(t, s.as(0, `cat wins`), "", "who ran the attacker's programs")
}

// The victim's own gorun-bench is on the launcher's machine, and the attacker has put another at
// its path on a host.
func TestBenchmarkOfAnotherUserOnAHostIsNotRun(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	s.as(0, `chmod 1777 open && : >wins && chmod 666 wins`)
	s.as(victim, `mkdir open/bin && cp `+command.Binary("gorun")+
		` open/bin/gorun && printf '#!/bin/sh\nexit 9\n' >open/bin/gorun-bench && chmod 755 open/bin/gorun-bench`)
	asOn(t, c, 0, `mount -t tmpfs -o mode=1777 tmpfs "$1"`, s.dir+"/open")
	asOn(t, c, attacker,
		`mkdir "$1/open/bin" && printf '#!/bin/sh\nid -u >>%s/wins\n' "$1" >"$1/open/bin/gorun-bench" && chmod 755 "$1/open/bin/gorun-bench"`, s.dir)
	gorun := filepath.Join(c.Dir, "open/bin/gorun")
	bench := []string{"bench", "allreduce", "--device", "cuda", "-np", "1", "-H"}
	command.StartPath(t, c, gorun, nil, append(bench, "f1")...).Want(125, "use "+gorun+
		"-bench: not safe, others can change "+filepath.Dir(gorun), "user 65533")
	noWins(s)
	asOn(t, c, 0, `umount "$1"`, s.dir+"/open")
	command.StartPath(t, c, gorun, nil, append(bench, "f1")...).Want(9) // the victim's
}

// A program of the attacker's that a command of the victim's only reads is not run, nor what it
// names as its dynamic linker.
func TestFilesThatACommandReadsAreNotRun(t *testing.T) {
	lab.Need(t, "cc")
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	s.as(0, `: >wins && chmod 666 wins && cd theirs && printf '#!/bin/sh\nid -u >>'$PWD'/../wins\n' >linker &&
		echo 'int main(void) { return 0; }' >p.c && cc -shared -o libx.so p.c &&
		cc -o tool p.c -Wl,--no-as-needed $PWD/libx.so -Wl,--dynamic-linker=$PWD/linker &&
		chmod 755 * && chown -R 65533 .`)
	tool := filepath.Join(s.dir, "theirs/tool")
	s.as(attacker, `theirs/linker && grep -x 65533 wins && : >wins`) // else nothing is shown
	for _, argv := range [][]string{{"cat", tool}, {"sh", "-c", "wc -c <" + tool}} {
		command.Start(t, c, append([]string{"-H", "f1"}, argv...)...).Want(0)
	}
	noWins(s)
}
