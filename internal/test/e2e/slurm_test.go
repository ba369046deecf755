package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/transport/srun"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/lab"
)

// TestSlurm runs in a real Slurm cluster whose three nodes are this machine.
func TestSlurm(t *testing.T) {
	s := slurmLab{lab.MustSlurm(t, 3)}
	warned := s.warnedBeforeTheLimit(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"one srun a node", s.testHosts},
		{"rank environment", s.testEnvironment},
		{"ways into a job", s.testWays},
		{"choosing nodes", s.testChoose},
		{"GPUs", s.testGPUs},
		{"bytes", s.testBytes},
		{"upload", s.testUpload},
		{"steps", s.testSteps},
		{"failures", s.testFailures},
		{"signals", s.testSignals},
		{"kill -9", s.testKill},
		{"elastic job", s.testElastic},
		{"scancel", s.testScancel},
		{"examples and docs", s.testDocs},
		{"--signal", warned},
	} {
		t.Run(test.name, test.run)
	}
}

// slurmLab is the cluster.
type slurmLab struct{ *lab.Slurm }

// run starts a Slurm command.
func (s slurmLab) run(t *testing.T, env []string, argv ...string) *run {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	t.Cleanup(cancel)
	r := &run{t: t, mark: fmt.Sprintf("E2E_MARK=%s-%d-%d", t.Name(), os.Getpid(), time.Now().UnixNano()), cmd: s.Command(ctx, argv...)}
	path := "PATH=" + filepath.Dir(binary("gorun")) + ":" + os.Getenv("PATH")
	r.cmd.Env = slices.Concat(r.cmd.Env, []string{path, r.mark, "HOME=" + t.TempDir()}, env)
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	r.cmd.WaitDelay = 5 * time.Second
	r.started = time.Now()
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// salloc runs a command line in a new job.
func (s slurmLab) salloc(t *testing.T, job string, env []string, args ...string) *run {
	t.Helper()
	return s.run(t, env, slices.Concat([]string{"salloc", "-Q"}, strings.Fields(job), args)...)
}

// allocate makes a job in which nothing runs, and returns the environment of a shell in it.
func (s slurmLab) allocate(t *testing.T, job string) (id string, env []string) {
	t.Helper()
	r := s.salloc(t, job+" --no-shell --job-name=bare-"+regexp.MustCompile(`\W`).ReplaceAllString(t.Name(), "-"), nil)
	if code := r.wait(); code != 0 {
		t.Fatalf("salloc: %d %s", code, &r.err)
	}
	out, err := s.Command(t.Context(), "squeue", "-h", "-o", "%i", "--name="+strings.TrimPrefix(r.cmd.Args[len(r.cmd.Args)-1], "--job-name=")).Output()
	id = strings.TrimSpace(string(out))
	if err != nil || id == "" {
		t.Fatalf("squeue: %q %v", out, err)
	}
	t.Cleanup(func() { _ = s.Command(context.Background(), "scancel", id).Run() })
	return id, []string{"SLURM_JOB_ID=" + id, "SLURM_JOB_NODELIST=n[1-3]", "SLURM_TASKS_PER_NODE=1(x3)"}
}

// batch submits a script and returns its output so far.
func (s slurmLab) batch(t *testing.T, options, script string) (id string, out func() string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "out")
	cmd := s.Command(t.Context(), slices.Concat([]string{"sbatch", "--parsable", "--output=" + file}, strings.Fields(options), []string{"--wrap", script})...)
	cmd.Dir = t.TempDir()
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("sbatch: %s", text)
	}
	id = strings.TrimSpace(string(text))
	t.Cleanup(func() {
		_ = s.Command(context.Background(), "scancel", id).Run()
		s.gone(t, id)
	})
	return id, func() string {
		text, _ := os.ReadFile(file)
		return string(text)
	}
}

// gone waits until a job has ended and nothing of it is left.
func (s slurmLab) gone(t *testing.T, id string) {
	t.Helper()
	await(t, "the end of job "+id, func() bool {
		out, err := s.Command(context.Background(), "squeue", "-h", "-j", id).CombinedOutput()
		return err != nil && strings.Contains(string(out), "Invalid job id") || strings.TrimSpace(string(out)) == ""
	})
}

// awaitText waits until out contains what n times.
func awaitText(t *testing.T, out func() string, what string, n int) {
	t.Helper()
	await(t, what, func() bool { return strings.Count(out(), what) >= n })
}

// sorted returns the lines of stdout in order.
func (r *run) sorted() []string {
	got := r.lines()
	slices.Sort(got)
	return got
}

func (r *run) wantLines(want ...string) {
	r.t.Helper()
	if got := r.sorted(); !slices.Equal(got, want) {
		r.t.Errorf("got %q, want %q", got, want)
	}
}

const whereAmI = "echo $SLURMD_NODENAME $GORUN_RANK/$GORUN_SIZE"

func (s slurmLab) testHosts(t *testing.T) {
	r := s.salloc(t, "-N3 -n5", nil, binary("gorun"), "sh", "-c", whereAmI).want(0)
	r.wantLines("n1:0: n1 0/5", "n1:1: n1 1/5", "n1:2: n1 2/5", "n2:3: n2 3/5", "n3:4: n3 4/5")
	hostname, _ := os.Hostname()
	if want := "gorun: n1, n2 and n3 are one machine (" + hostname + "): their ranks share its cores and GPUs\n"; r.err.String() != want {
		t.Errorf("stderr %q", &r.err)
	}
	r = s.salloc(t, "-N3", nil, binary("gorun"), "--prefix", "none", "sh", "-c", "echo $GORUN_HOSTNAME").want(0)
	r.wantLines("n1", "n2", "n3")
	r = s.salloc(t, "-N2 --ntasks-per-node=2", nil, binary("gorun"), "-np", "3", "--prefix", "none", "sh", "-c", "echo $GORUN_HOSTNAME").want(0)
	r.wantLines("n1", "n1", "n2")
}

// testEnvironment checks that ranks get the variables of the job and of their node, not those of gorun's own node and steps.
func (s slurmLab) testEnvironment(t *testing.T) {
	env := []string{"E2E_PLAIN=yes", "E2E_API_KEY=canary", "SLURM_CPU_BIND=cores"}
	r := s.salloc(t, "-N3 -n5", env, binary("gorun"), "--prefix", "none", "-np", "1", "-H", "n2", "env").want(0)
	got := map[string]string{}
	for _, line := range r.lines() {
		name, value, _ := strings.Cut(line, "=")
		got[name] = value
	}
	for name, want := range map[string]string{"SLURMD_NODENAME": "n2", "SLURM_NTASKS": "5", "SLURM_JOB_NODELIST": "n[1-3]", "SLURM_NNODES": "3", "SLURM_TASKS_PER_NODE": "3,1(x2)",
		"E2E_PLAIN": "yes", "GORUN_RANK": "0", "GORUN_SIZE": "1"} {
		if got[name] != want {
			t.Errorf("%s=%q, want %q", name, got[name], want)
		}
	}
	for name := range got {
		if srun.OfStep(name) || name == "SLURM_PROCID" || name == "SLURM_LOCALID" || name == "SLURM_NODEID" || name == "E2E_API_KEY" {
			t.Errorf("a rank has %s=%s", name, got[name])
		}
	}
}

// testWays starts gorun in every way that a job offers, with srun's options in the environment.
func (s slurmLab) testWays(t *testing.T) {
	gorun := binary("gorun")
	odd := []string{"SLURM_LABELIO=1", "SLURM_HINT=nomultithread", "SLURM_DISTRIBUTION=plane=2", "SLURM_GPUS=8", "SLURM_GPUS_PER_TASK=2", "SLURM_CPU_BIND=cores",
		"SLURM_NTASKS_PER_NODE=4", "SLURM_EXACT=1", "SLURM_CPUS_PER_TASK=9", "SRUN_CPUS_PER_TASK=9", "SLURM_TEST_EXEC=1", "SLURM_STDINMODE=none", "SLURM_REMOTE_CWD=/nowhere"}
	s.salloc(t, "-N3", odd, gorun, "sh", "-c", whereAmI).want(0).wantLines("n1:0: n1 0/3", "n2:1: n2 1/3", "n3:2: n3 2/3")
	for _, inner := range []string{"srun", "srun --overlap"} {
		args := slices.Concat(strings.Fields(inner), []string{"-N1", "-n1", gorun, "-np", "2", "sh", "-c", whereAmI})
		s.salloc(t, "-N3 -n5", nil, args...).want(0).wantLines("n1:0: n1 0/2", "n1:1: n1 1/2")
	}
	first := `[ $SLURM_PROCID = 0 ] || exit 0; exec gorun sh -c '` + whereAmI + `'`
	s.salloc(t, "-N3 -n5", nil, "srun", "--overlap", "-N3", "-n3", "sh", "-c", first).want(0).wantLines("n1:0: n1 0/3", "n2:1: n2 1/3", "n3:2: n3 2/3")
	s.salloc(t, "-N1 -n1 : -N1 -n2", nil, gorun, "sh", "-c", whereAmI).want(0).wantLines("n1:0: n1 0/3", "n2:1: n2 1/3", "n2:2: n2 2/3")
	_, out := s.batch(t, "-N2 -n2 --export=NONE", gorun+" sh -c '"+whereAmI+"'; echo code=$? $SLURM_EXPORT_ENV")
	awaitText(t, out, "code=0 NONE\n", 1)
	for _, want := range []string{"n1:0: n1 0/2\n", "n2:1: n2 1/2\n"} {
		if !strings.Contains(out(), want) {
			t.Errorf("--export=NONE: no %q in %q", want, out())
		}
	}
}

func (s slurmLab) testChoose(t *testing.T) {
	names := []string{"sh", "-c", "echo $GORUN_HOSTNAME"}
	for args, want := range map[string]string{
		"-H n3,n1":              "n1 n1 n1 n3", // n1 has three of the tasks
		"-H n3,n1:2":            "n1 n1 n3",
		"-H ^n1":                "n2 n3",
		"-H n2:2":               "n2 n2",
		"-H localhost:2":        "localhost localhost",
		"--nodes 2 --ppn 1":     "n1 n2",
		"--launcher local":      "n1 n1 n1 n2 n3",
		"--launcher srun -np 1": "n1",
	} {
		r := s.salloc(t, "-N3 -n5", nil, slices.Concat([]string{binary("gorun"), "--prefix", "none"}, strings.Fields(args), names)...).want(0)
		if got := strings.Join(r.sorted(), " "); got != want {
			t.Errorf("%s: ranks on %q, want %q", args, got, want)
		}
	}
	s.salloc(t, "-N3 -n5", nil, binary("gorun"), "--launcher", "srun", "-H", "n2,m3", "true").want(2, "Slurm job", "has no host m3", "did you mean n3?")
	s.salloc(t, "-N1", nil, binary("gorun"), "--launcher", "srun", "--hostfile", s.hosts(t, "n9\n"), "true").want(125, "n9: not a node of Slurm job", "--launcher ssh")
	s.run(t, nil, binary("gorun"), "--launcher", "srun", "true").want(2, "SLURM_JOB_ID is not set", "salloc")
	s.run(t, nil, binary("gorun"), "--launcher", "pbs", "true").want(2, "auto, ssh, srun, system-ssh, rsh or local")
}

func (s slurmLab) hosts(t *testing.T, text string) string {
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// allBytes returns data with every pair of byte values many times.
func allBytes(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i) + byte(i>>8)*byte(i>>16|1)
	}
	return data
}

func (s slurmLab) testBytes(t *testing.T) {
	data := allBytes(8<<20 + 1)
	_, env := s.allocate(t, "-N3 -n3")
	cmd := s.Command(t.Context(), binary("gorun"), "--prefix", "none", "-np", "1", "-H", "n2", "cat")
	cmd.Env, cmd.Stdin = append(cmd.Env, env...), bytes.NewReader(data)
	got, err := cmd.Output()
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back changed (%d sent): %v", len(got), len(data), err)
	}
}

// testUpload runs a gorun on a file system that the nodes do not see.
func (s slurmLab) testUpload(t *testing.T) {
	dir := t.TempDir()
	script := `mount -t tmpfs none "$1" && cp "$2" "$1/gorun" && shift 2 && exec salloc -Q -N3 "$@"`
	argv := []string{"unshare", "--mount", "sh", "-c", script, "sh", dir, binary("gorun"), dir + "/gorun", "-v", "sh", "-c", whereAmI}
	home := "HOME=" + t.TempDir()
	r := s.run(t, []string{home}, argv...).want(0)
	r.wantLines("n1:0: n1 0/3", "n2:1: n2 1/3", "n3:2: n3 2/3")
	if n := strings.Count(r.err.String(), "uploaded gorun to ~/.cache/gorun/"); n != 1 {
		t.Errorf("%d uploads, want 1 for nodes that share a home:\n%s", n, &r.err)
	}
	if r = s.run(t, []string{home}, argv...).want(0); strings.Contains(r.err.String(), "uploaded") {
		t.Errorf("uploaded again: %s", &r.err)
	}
}

// testSteps runs commands on a node without a launcher.
func (s slurmLab) testSteps(t *testing.T) {
	id, env := s.allocate(t, "-N3 -n3")
	job := srun.Job{ID: id, Nodes: map[string]int{"n1": 0, "n2": 0, "n3": 0}}
	home := t.TempDir()
	environ := slices.Concat(os.Environ(), env, []string{"SLURM_CONF=" + s.Conf, "HOME=" + home, "E2E_SECRET=canary"})
	program, err := exec.LookPath("srun")
	if err != nil {
		t.Fatal(err)
	}
	node, err := srun.New(job, program, environ).Dial(hostfile.Host{Name: "n2"})
	if err != nil {
		t.Fatal(err)
	}
	data := allBytes(3 << 20)
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
	if err := node.Put(t.Context(), "deep/er/file", 0o751, bytes.NewReader(data)); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(home, "deep/er/file"))
	got, _ := os.ReadFile(filepath.Join(home, "deep/er/file"))
	if err != nil || info.Mode() != 0o751 || !bytes.Equal(got, data) {
		t.Errorf("put: %v, %v, %d bytes", err, info, len(got))
	}
	if left, _ := filepath.Glob(filepath.Join(home, "deep/er/.*")); len(left) > 0 {
		t.Errorf("put left %v", left)
	}
	var code interface{ ExitCode() int }
	var out, stderr bytes.Buffer
	for argv, want := range map[string]int{"/no/such/program": 2, "no/such/program": 127} {
		if err := node.Run(t.Context(), []string{argv}, nil, &out, &stderr); !errors.As(err, &code) || code.ExitCode() != want {
			t.Errorf("%s: %v, want exit code %d", argv, err, want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	begun, cause := time.Now(), errors.New("enough")
	time.AfterFunc(500*time.Millisecond, func() { cancel(cause) })
	if err := node.Run(ctx, []string{"/bin/sleep", "971.5"}, nil, &out, &stderr); !errors.Is(err, cause) || time.Since(begun) > srun.CancelTimeout {
		t.Errorf("cancelled: %v after %v", err, time.Since(begun))
	}
	await(t, "the end of the step", func() bool { return len(lab.Processes("sleep 971.5")) == 0 })
	if err := s.Command(t.Context(), "scancel", id).Run(); err != nil {
		t.Fatal(err)
	}
	s.gone(t, id)
	var refused *srun.StepError
	if err := node.Run(t.Context(), []string{"/bin/true"}, nil, &out, &stderr); !errors.As(err, &refused) || errors.As(err, &code) {
		t.Errorf("a job that is over: %v", err)
	}
}

func (s slurmLab) testFailures(t *testing.T) {
	gorun := binary("gorun")
	s.salloc(t, "-N3 -n5", nil, gorun, "sh", "-c", "[ $RANK = 3 ] && exit 7; exec sleep 60").want(7, "rank 3 on n2 exited with code 7")
	s.salloc(t, "-N3 -n5", nil, gorun, "sh", "-c", "[ $RANK = 4 ] && kill -SEGV $$; exec sleep 60").want(139, "rank 4 on n3 was killed by signal 11 (SIGSEGV)")
	s.salloc(t, "-N2", nil, gorun, "/no/such/program").want(127, "n1, n2: the program /no/such/program does not exist")
	id, env := s.allocate(t, "-N3 -n3")
	if err := s.Command(t.Context(), "scancel", id).Run(); err != nil {
		t.Fatal(err)
	}
	s.gone(t, id)
	r := s.run(t, env, gorun, "true").want(125, "n1, n2, n3: start ", "Slurm refused to start a step of job "+id+" there: srun: error: ", "hint: see squeue -j "+id)
	if n := strings.Count(r.err.String(), "\n"); n != 2 {
		t.Errorf("stderr: %s", &r.err)
	}
}

// untilTrapped returns a program that prints up and waits for the signal that trap catches.
func untilTrapped(trap string) []string {
	return []string{"sh", "-c", trap + "; echo up; while :; do sleep .05; done"}
}

func (s slurmLab) testSignals(t *testing.T) {
	_, env := s.allocate(t, "-N3 -n3")
	for _, test := range []struct {
		signal syscall.Signal
		trap   string
		code   int
	}{
		{syscall.SIGINT, "trap 'echo said; exit 0' TERM", 130},
		{syscall.SIGTERM, "trap 'echo said; exit 0' TERM", 143},
		{syscall.SIGUSR1, "trap 'echo said; exit 0' USR1", 0},
	} {
		r := s.run(t, env, append([]string{binary("gorun")}, untilTrapped(test.trap)...)...)
		awaitText(t, r.out.String, "up", 3)
		signalRun(t, r, test.signal)
		r.want(test.code)
		if n := strings.Count(r.out.String(), "said"); n != 3 {
			t.Errorf("%v: %d ranks were told:\n%s", test.signal, n, &r.out)
		}
	}
	id, out := s.batch(t, "-N3 -n5", binary("gorun")+` sh -c 'trap "echo saved; exit 0" USR1; echo up; while :; do sleep .05; done'; echo code=$?`)
	awaitText(t, out, "up\n", 5)
	if err := s.Command(t.Context(), "scancel", "-s", "USR1", id).Run(); err != nil {
		t.Fatal(err)
	}
	awaitText(t, out, "code=0\n", 1)
	if n := strings.Count(out(), "saved\n"); n != 5 {
		t.Errorf("scancel -s USR1: %d ranks saved:\n%s", n, out())
	}
}

func (s slurmLab) testKill(t *testing.T) {
	_, env := s.allocate(t, "-N3 -n3")
	r := s.run(t, env, append([]string{binary("gorun")}, untilTrapped("trap 'exit 0' TERM")...)...)
	awaitText(t, r.out.String, "up", 3)
	signalRun(t, r, syscall.SIGKILL)
	if code := r.wait(); code != 137 {
		t.Errorf("exit code %d", code)
	}
	r.nothingLeft(15 * time.Second)
}

func signalRun(t *testing.T, r *run, s syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
