package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/transport/srun"
)

// TestSlurm runs in a real Slurm cluster whose three nodes are this machine.
// testdata/script/slurm.txtar has more.
func TestSlurm(t *testing.T) {
	s := lab.MustSlurm(t, 3)
	t.Setenv("SLURM_CONF", s.Conf)
	t.Setenv("PATH", filepath.Dir(command.Binary("gorun"))+":"+os.Getenv("PATH"))
	warned := warnedBeforeTheLimit(t, s)
	t.Run("steps", testSlurmSteps)
	t.Run("one step for all nodes", testSlurmOneStep)
	t.Run("files", testSlurmCopy)
	t.Run("elastic job", testSlurmElastic)
	t.Run("examples and docs", testSlurmDocs)
	t.Run("--signal", warned)
}

// slurmCommand runs a command of Slurm's and returns its output.
func slurmCommand(t *testing.T, argv ...string) string {
	t.Helper()
	out := must.Run(t, exec.Command(argv[0], argv[1:]...))
	return strings.TrimSpace(string(out))
}

// allocate makes a job of three nodes in which nothing runs, and returns the environment of a shell
// in it.
func allocate(t *testing.T) (id string, env []string) {
	t.Helper()
	name := "--job-name=" + filepath.Base(t.Name())
	slurmCommand(t, "salloc", "-Q", "-N3", "-n3", "--no-shell", name)
	id = slurmCommand(t, "squeue", "-h", "-o", "%i", strings.Replace(name, "job-", "", 1))
	t.Cleanup(func() { _ = exec.Command("scancel", id).Run() })
	return id, []string{"SLURM_JOB_ID=" + id, "SLURM_JOB_NODELIST=n[1-3]", "SLURM_TASKS_PER_NODE=1(x3)"}
}

// awaitNoJob waits until squeue lists no job with these options.
func awaitNoJob(t *testing.T, options ...string) {
	t.Helper()
	must.Until(t, "the end of jobs", func() bool {
		out, err := exec.Command("squeue", append(options, "-h")...).CombinedOutput()
		return err != nil && strings.Contains(string(out), "Invalid job id") || strings.TrimSpace(string(out)) == ""
	})
}

// awaitFile waits until a file has a text n times.
func awaitFile(t *testing.T, file, text string, n int) {
	t.Helper()
	must.Until(t, text, func() bool {
		got, _ := os.ReadFile(file)
		return strings.Count(string(got), text) >= n
	})
}

// warnedBeforeTheLimit starts a job that Slurm warns before its time limit, which takes a while,
// and returns its test. The job runs a copy of gorun, which no other test counts as left behind.
func warnedBeforeTheLimit(t *testing.T, s *lab.Slurm) func(*testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(command.Binary("gorun"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "gorun"), text, 0o755)
	}
	must.OK(t, err)
	slurmCommand(t, "sbatch", "-n3", "--time=1", "--signal=USR1@60", "--partition="+s.Aside, "--chdir="+dir,
		"--output=out",
		"--wrap", `./gorun sh -c 'trap "echo saved; exit 0" USR1; echo up; while :; do sleep .05; done'; echo code=$?`)
	return func(t *testing.T) {
		awaitFile(t, dir+"/out", "code=0\n", 1)
		awaitFile(t, dir+"/out", "saved\n", 3)
	}
}

// testSlurmSteps runs commands on a node without a launcher.
func testSlurmSteps(t *testing.T) {
	id, env := allocate(t)
	job := srun.Job{ID: id, Nodes: map[string]int{"n1": 0, "n2": 0, "n3": 0}}
	home := t.TempDir()
	environ := slices.Concat(os.Environ(), env, []string{"HOME=" + home, "E2E_SECRET=canary"})
	program := must.Get(exec.LookPath("srun"))(t)
	node := must.Get(srun.New(job, program, environ).Dial(t.Context(), hostfile.Host{Name: "n2"}))(t)
	data := make([]byte, 3<<20)
	rand.Read(data)
	for direction, argv := range map[string][]string{"both": {"cat"}, "none": {"sh", "-c", "wc -c; printf x"}} {
		var out, stderr bytes.Buffer
		err := node.Run(t.Context(), append([]string{"/usr/bin/env"}, argv...), bytes.NewReader(data), &out, &stderr)
		want := data
		if direction == "none" {
			want = fmt.Appendf(nil, "%d\nx", len(data))
		}
		if err != nil || !bytes.Equal(out.Bytes(), want) || strings.Contains(stderr.String(), "lacks support") {
			t.Errorf("%s: %d bytes, %v, %s", direction, out.Len(), err, &stderr)
		}
	}
	check.OK(t, node.Put(t.Context(), "deep/er/file", 0o751, bytes.NewReader(data)))
	info, err := os.Stat(filepath.Join(home, "deep/er/file"))
	got, _ := os.ReadFile(filepath.Join(home, "deep/er/file"))
	check.That(t, err == nil && info.Mode() == 0o751 && bytes.Equal(got, data),
		"put: %v, %v, %d bytes", err, info, len(got))
	left, _ := filepath.Glob(filepath.Join(home, "deep/er/.*"))
	check.That(t, len(left) == 0, "put left %v", left)
	var code interface{ ExitCode() int }
	var out, stderr bytes.Buffer
	for argv, want := range map[string]int{"/no/such/program": 2, "no/such/program": 127} {
		err := node.Run(t.Context(), []string{argv}, nil, &out, &stderr)
		check.That(t, errors.As(err, &code) && code.ExitCode() == want, "%s: %v, want exit code %d", argv, err, want)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	begun := time.Now()
	cause := errors.New("enough")
	time.AfterFunc(500*time.Millisecond, func() { cancel(cause) })
	err = node.Run(ctx, []string{"/bin/sleep", "971.5"}, nil, &out, &stderr)
	check.That(t, errors.Is(err, cause) && time.Since(begun) <= srun.CancelTimeout,
		"cancelled: %v after %v", err, time.Since(begun))
	must.Until(t, "the end of the step", func() bool { return len(lab.Processes("sleep 971.5")) == 0 })
	slurmCommand(t, "scancel", id)
	awaitNoJob(t, "-j", id)
	var refused *srun.StepError
	err = node.Run(t.Context(), []string{"/bin/true"}, nil, &out, &stderr)
	check.That(t, errors.As(err, &refused) && !errors.As(err, &code), "a job that is over: %v", err)
}

// stepsOf lists the steps of a job with their nodes, but not those that every job has.
func stepsOf(t *testing.T, job string) (steps []string) {
	t.Helper()
	for line := range strings.Lines(slurmCommand(t, "squeue", "--steps", "--noheader", "--job", job, "--format",
		"%i %N")) {
		if id, _, _ := strings.Cut(strings.TrimSpace(line), " "); id != "" && !strings.HasSuffix(id, "extern") &&
			!strings.HasSuffix(id, "batch") && !strings.HasSuffix(id, "interactive") {
			steps = append(steps, strings.TrimSpace(line))
		}
	}
	return steps
}

// listening returns the address, as /proc has it, of a TCP port that a process listens at, or "".
func listening(pid int) string {
	inodes := map[string]string{}
	for line := range strings.Lines(command.ProcFile(pid, "net/tcp") + command.ProcFile(pid, "net/tcp6")) {
		if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" {
			inodes["socket:["+f[9]+"]"] = f[1]
		}
	}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if file, err := os.Readlink(link); err == nil && inodes[file] != "" {
			return inodes[file]
		}
	}
	return ""
}

// testSlurmOneStep runs jobs whose agents share a step, and lets its processes, and gorun, be
// killed.
func testSlurmOneStep(t *testing.T) {
	id, env := allocate(t)
	loop := []string{"-np", "6", "sh", "-c", `trap "echo told; exit 0" TERM; echo up $$; while :; do sleep .05; done`}
	begin := func() *command.Run {
		r := command.StartIn(t, nil, env, loop...)
		must.Until(t, "six ranks", func() bool { return strings.Count(r.Out.String(), "up ") == 6 })
		return r
	}

	r := begin()
	steps := stepsOf(t, id)
	check.That(t, len(steps) == 1 && strings.HasSuffix(steps[0], "n[1-3]"), "steps %q, want one of all nodes", steps)
	port := listening(r.Cmd.Process.Pid)
	check.That(t, port == "", "gorun listens at %s while its ranks run", port)
	// the ticket is in no argument and no variable
	for _, pid := range append(lab.Processes(r.Mark), command.Processes()...) {
		text := command.ProcFile(pid, "cmdline") + command.ProcFile(pid, "environ")
		check.That(t, !strings.Contains(text, `"seed"`), "process %d has the ticket: %q", pid, text)
	}
	must.OK(t, r.Cmd.Process.Signal(os.Interrupt))
	if code := r.Wait(); code != 130 || strings.Count(r.Out.String(), "told") != 6 {
		t.Errorf("exit code %d\n%s\n%s", code, r.Out.String(), r.Err.String())
	}
	r.NothingLeft(30 * time.Second)

	// A node's process that is killed costs its own node only, as far as Slurm goes: gorun names
	// the host, and stops the others.
	r = begin()
	killed := 0
	for _, pid := range lab.Processes(srun.Command) {
		if strings.Contains(command.ProcFile(pid, "environ"), "SLURMD_NODENAME=n2\x00") &&
			syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	check.That(t, killed == 1, "%d processes of n2 killed, want its one", killed)
	// gorun waits for no process of a lost host
	if code := r.Wait(); code != 125 || !strings.Contains(r.Err.String(), "n2") {
		t.Errorf("exit code %d\n%s", code, r.Err.String())
	}
	if n := strings.Count(r.Out.String(), "told"); n < 4 {
		t.Errorf("%d ranks of other nodes were stopped in order\n%s\n%s", n, r.Out.String(), r.Err.String())
	}
	r.NothingLeft(30 * time.Second)

	r = begin()
	must.OK(t, r.Cmd.Process.Kill())
	r.Wait()
	r.NothingLeft(60 * time.Second)
	must.Until(t, "the end of the step", func() bool { return len(stepsOf(t, id)) == 0 })
}

// testSlurmCopy copies a file to the nodes of a job, which are this machine.
func testSlurmCopy(t *testing.T) {
	_, env := allocate(t)
	file := filepath.Join(t.TempDir(), "data")
	to := t.TempDir()
	data := bytes.Repeat([]byte("data\n"), 1<<18)
	must.OK(t, os.WriteFile(file, data, 0o644))
	r := command.StartIn(t, nil, env, "cp", "-v", file, ":"+to)
	if code := r.Wait(); code != 0 || !strings.Contains(r.Err.String(), "copied to 3 hosts") {
		t.Errorf("exit code %d\n%s", code, r.Err.String())
	}
	got, err := os.ReadFile(filepath.Join(to, "data"))
	check.That(t, err == nil && bytes.Equal(got, data), "%d bytes, %v", len(got), err)
}

// train is the program of docs/slurm.md and of the examples.
const train = `#!/bin/sh
echo "rank $RANK of $WORLD_SIZE on $GORUN_HOSTNAME"
[ "$1" = --checkpoint ] || exit 0
trap 'echo "rank $RANK saved"; exit 0' USR1
while :; do sleep .05; done
`

// testSlurmDocs runs docs/slurm.md, with the examples that it submits.
func testSlurmDocs(t *testing.T) {
	dir := furnished(t)
	w := world{name: "slurm", dir: dir, shell: func(ctx context.Context, _, line string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "bash", "-c", line)
		cmd.Env = append(os.Environ(), "GORUN_PREFIX=")
		return cmd
	}}
	w.before = func(t *testing.T, line string) {
		if strings.HasPrefix(line, "scancel ") {
			awaitFile(t, dir+"/checkpoint.out", "rank ", 2)
		}
	}
	w.after = func(t *testing.T, line string) {
		if strings.HasPrefix(line, "sbatch ") && !strings.Contains(line, "checkpoint") ||
			strings.HasPrefix(line, "scancel ") {
			awaitNoJob(t, "-n", "train,checkpoint,parts")
		}
	}
	w.run(t)
}

// testSlurmElastic kills a rank, then ends a node's step as if the node were lost. The job goes on
// in its allocation.
func testSlurmElastic(t *testing.T) {
	id, env := allocate(t)
	r := command.StartIn(t, nil, env, append([]string{"--min-np", "2", "--blacklist-cooldown-range", "1,1"},
		elasticRank(t, 40)...)...)
	first := awaitEpoch(t, r, 1, 3, 20*time.Second)
	must.OK(t, syscall.Kill(first[1].pid, syscall.SIGKILL))
	awaitEpoch(t, r, 2, 2, 10*time.Second)
	third := awaitEpoch(t, r, 3, 3, 20*time.Second)
	lost := third[2]
	var step string
	for line := range strings.Lines(slurmCommand(t, "squeue", "--steps", "--noheader", "--job", id, "--format",
		"%i %N")) {
		if name, node, _ := strings.Cut(strings.TrimSpace(line), " "); node == lost.host {
			step = name
		}
	}
	slurmCommand(t, "scancel", "--signal=KILL", step)
	awaitEpoch(t, r, 4, 2, 25*time.Second) // when it is sure that nothing is left there
	awaitEpoch(t, r, 5, 3, 25*time.Second)
	r.Want(0, "host "+lost.host+": ")
	r.NothingLeft(30 * time.Second)
}
