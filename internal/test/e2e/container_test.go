package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

// containers holds two SSH hosts where containers run, and a folder with an image.
type containers struct {
	*lab.Cluster
	dir string // holds horovod.sif, with a program python in it
	env []string
}

// newContainers makes the image and puts the programs that run it in the PATH: the real ones, or stand-ins from testdata.
func newContainers(t *testing.T, real bool) containers {
	t.Helper()
	c := containers{Cluster: lab.MustLoopback(t, lab.Specs(2)...), dir: t.TempDir()}
	bin, inside := filepath.Join(c.dir, "bin"), filepath.Join(c.dir, "horovod.sif/usr/local/bin")
	for _, dir := range []string{bin, inside, "dev", "etc", "proc", "root", "sys", "tmp", "var/tmp"} {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(c.dir, "horovod.sif", dir)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range [][2]string{{inside, "python"}, {bin, "singularity"}} {
		cmd := exec.Command("go", "build", "-trimpath", "-o", target[0]+"/", testdata("container/"+target[1]))
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, name := range []string{"passwd", "group"} { // Apptainer writes who runs it
		if err := os.WriteFile(filepath.Join(c.dir, "horovod.sif/etc", name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"apptainer", "docker"} {
		if err := os.Symlink("singularity", filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	if real {
		for _, name := range []string{"singularity", "apptainer"} {
			path, err := exec.LookPath(name)
			if err == nil {
				err = os.Remove(filepath.Join(bin, name))
			}
			if err == nil {
				err = os.Symlink(path, filepath.Join(bin, name))
			}
			if err != nil {
				t.Fatalf("the test needs Apptainer: %v", err)
			}
		}
	}
	c.env = []string{"PATH=" + bin + ":" + filepath.Dir(binary("gorun")) + ":" + os.Getenv("PATH"), "GORUN_WDIR=" + c.dir,
		"LD_LIBRARY_PATH=/opt/lib", "E2E_PLAIN=plain", "PYTHONUNBUFFERED=1", "SINGULARITYENV_RANK=7", "APPTAINERENV_GORUN_RANK=7"}
	return c
}

func TestContainers(t *testing.T) {
	c := newContainers(t, false)
	testContainers(t, c)
	t.Run("docker", c.testDocker)
	t.Run("docs", c.testDocs)
}

func testContainers(t *testing.T, c containers) {
	t.Run("environment", c.testEnvironment)
	t.Run("ring", c.testRing)
	t.Run("ends", c.testEnds)
	t.Run("kills", c.testKills)
	t.Run("stop", c.testStop)
}

// start runs a line with gorun on two hosts.
func (c containers) start(t *testing.T, line string) *run {
	t.Helper()
	words := strings.Fields(line)
	return startIn(t, c.Cluster, c.env, slices.Concat([]string{"--prefix", "none"}, words)...)
}

// testEnvironment runs published lines and their variants: every rank learns its location, and the container program prints
// nothing.
func (c containers) testEnvironment(t *testing.T) {
	const job = "-np 4 -H f1:2,f2:2 -x LD_LIBRARY_PATH -x E2E_ASKED=a=b "
	for _, tc := range []struct {
		line  string
		clean bool
	}{
		{"singularity exec --nv horovod.sif python train.py --env", false},
		{"singularity exec --nv --cleanenv horovod.sif python train.py --env", true},
		{"env E2E_OTHER=1 timeout -k 5 60 nice singularity exec -e horovod.sif python train.py --env", true},
		{c.dir + "/bin/apptainer exec -e horovod.sif python train.py --env", true},
		{"-x PATH -x HOROVOD_MPI_THREADS_DISABLE=1 -x NCCL_SOCKET_IFNAME=^virbr0,lo -mca plm_rsh_no_tree_spawn 1 singularity exec --nv horovod.sif python train.py --env", false},
	} {
		r := c.start(t, job+tc.line).want(0)
		plain := "plain"
		if tc.clean {
			plain = ""
		}
		var want []string
		for rank := range 4 {
			want = append(want, fmt.Sprintf("%d: %d/4 %d/2 %d/2 1 lib=/opt/lib plain=%s asked=a=b master=true", rank, rank, rank%2, rank, plain),
				fmt.Sprintf("rank %d of 4 on f%d", rank, 1+rank/2))
		}
		got := r.lines()
		for i, line := range got {
			// --nv appends its folder to the library path; a build of Apptainer without GPU support does not.
			got[i] = strings.Replace(line, ":/.singularity.d/libs", "", 1)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", tc.line, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if said := withoutNV(besidesOneMachine(r)); said != "" {
			t.Errorf("%s: stderr %s", tc.line, said)
		}
	}
}

// withoutNV returns stderr without Apptainer's warning about --nv on machines without a GPU.
func withoutNV(text string) string {
	return strings.Join(slices.DeleteFunc(strings.SplitAfter(text, "\n"), func(line string) bool {
		return strings.Contains(line, "INFO:") && strings.Contains(line, "nv") || strings.Contains(line, "Could not find any nv files")
	}), "")
}

// Ranks that use ring find each other from inside containers.
func (c containers) testRing(t *testing.T) {
	text, err := os.ReadFile(binary("allreduce"))
	if err == nil {
		err = os.WriteFile(filepath.Join(c.dir, "horovod.sif/usr/local/bin/allreduce"), text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := c.start(t, "-np 4 -H f1:2,f2:2 singularity exec --cleanenv horovod.sif allreduce").want(0)
	if n := strings.Count(r.out.String(), "the sum is 6\n"); n != 4 {
		t.Errorf("%d ranks have the sum: %s", n, &r.out)
	}
}

func (c containers) testEnds(t *testing.T) {
	const job = "-np 4 -H f1:2,f2:2 singularity exec --cleanenv "
	r := c.start(t, job+"horovod.sif python train.py --fail").want(3, "rank 1 on f1 exited with code 3")
	if r.took > 5*time.Second {
		t.Errorf("took %v", r.took)
	}
	c.start(t, job+"horovod.sif python train.py --die").want(137, "rank 1 on f1 was killed by signal 9")
	c.start(t, job+"absent.sif python train.py").want(255, "absent.sif")
}

// testKills kills a container program, or gorun, and checks that nothing is left.
func (c containers) testKills(t *testing.T) {
	for _, victim := range []string{"rank", "gorun"} {
		r := c.start(t, "-np 4 -H f1:2,f2:2 singularity exec horovod.sif python train.py --wait")
		await(t, "the ranks", func() bool { return strings.Count(r.out.String(), " of 4 on ") == 4 })
		pid, says := r.cmd.Process.Pid, ""
		if victim == "rank" {
			pid, says = findMonitor(t, r), "was killed by signal 9"
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if code := r.wait(); code != 137 || !strings.Contains(r.err.String(), says) {
			t.Errorf("kill -9 of %s: exit code %d; stderr %q", victim, code, &r.err)
		}
		r.nothingLeft(7 * time.Second)
	}
}

// findMonitor returns the process of a container program that waits for a rank's end.
func findMonitor(t *testing.T, r *run) int {
	t.Helper()
	for _, pid := range lab.Processes(r.mark) {
		line := procFile(pid, "cmdline")
		if strings.HasPrefix(line, "singularity\x00exec") || strings.HasPrefix(line, "Apptainer runtime parent") {
			return pid
		}
	}
	t.Fatal("no container program runs")
	return 0
}

func (c containers) testStop(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGUSR1: 0} {
		r := c.start(t, "-np 4 -H f1:2,f2:2 singularity exec --cleanenv horovod.sif python train.py --wait")
		await(t, "the ranks", func() bool { return strings.Count(r.out.String(), " of 4 on ") == 4 })
		if err := r.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		r.want(code)
		if n := strings.Count(r.out.String(), " told: "); n != 4 {
			t.Errorf("%v: %d ranks were told: %s", sig, n, &r.out)
		}
	}
}

// testDocker shows that docker passes no variables into containers, that gorun warns, and that its hint works.
func (c containers) testDocker(t *testing.T) {
	const says = "gorun: docker does not give containers RANK, WORLD_SIZE and the like: write docker run $(gorun --print-env-flags -x E2E_ASKED) ...\n"
	r := c.start(t, "-np 2 -x E2E_ASKED=1 docker run --rm horovod.sif python train.py").want(0)
	if r.out.String() != "rank  of  on \nrank  of  on \n" || r.err.String() != says {
		t.Errorf("stdout %q, stderr %q", &r.out, &r.err)
	}
	flags := startIn(t, nil, nil, "--print-env-flags", "-x", "E2E_ASKED=1", "-x", "a b=1").want(0, "left out").out.String()
	r = c.start(t, "-np 2 -x E2E_ASKED=yes docker run --rm "+flags+" horovod.sif python train.py --env").want(0)
	got := r.lines()
	slices.Sort(got)
	if len(got) != 4 || got[1] != "1: 1/2 1/2 1/1 1 lib= plain= asked=yes master=true" || r.err.Len() > 0 {
		t.Errorf("stdout %q, stderr %q", &r.out, &r.err)
	}
}

// testDocs runs docs/singularity.md.
func (c containers) testDocs(t *testing.T) {
	if err := os.Symlink(filepath.Join(root, "examples"), filepath.Join(c.dir, "examples")); err != nil {
		t.Fatal(err)
	}
	w := world{name: "containers", dir: c.dir, shell: func(ctx context.Context, _, line string) *exec.Cmd {
		cmd := c.Command(ctx, "bash", "-c", line)
		cmd.Env = slices.Concat(os.Environ(), c.env, []string{"HOME=" + t.TempDir(), "GORUN_SSH_CONFIG=" + c.ConfigFile, "NCCL_DEBUG=INFO"})
		return cmd
	}}
	w.run(t)
}
