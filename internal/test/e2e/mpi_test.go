package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
)

// mpich installs PyPI's MPICH with mpi4py, once for all tests, and returns its path. Debian 12's MPICH 4.0.2 is unreliable over
// networks: with UCX on TCP it sometimes hangs in MPI_Finalize under any launcher (https://github.com/pmodels/mpich/pull/6596).
func mpich(t testing.TB) string {
	t.Helper()
	lab.Need(t, "python3", "pip3", "cc")
	dir := binary("mpich")
	if tree := mpichTree(dir); tree != "" {
		return tree
	}
	cmd := exec.Command("python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-warn-script-location", "--no-deps",
		"--ignore-installed", "--only-binary", ":all:", "--prefix", dir, "mpich==5.0.2", "mpi4py==4.1.2")
	cmd.Env = append(os.Environ(), "PIP_ROOT_USER_ACTION=ignore")
	if out, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(dir) // the next test must not take a half for the whole
		lab.Skip(t, fmt.Sprintf("needs MPICH from PyPI: %v: %s", err, out))
	}
	return mpichTree(dir)
}

// mpichTree returns where in dir pip has installed MPICH, or "". Debian's pip installs below local.
func mpichTree(dir string) string {
	for _, tree := range []string{dir, dir + "/local"} {
		if _, err := os.Stat(tree + "/bin/mpicc"); err == nil {
			return tree
		}
	}
	return ""
}

// mpiProgram builds a program of testdata/mpi with an MPI compiler.
func mpiProgram(t testing.TB, mpicc, name string) string {
	t.Helper()
	lab.Need(t, mpicc)
	program := binary(name + strings.ReplaceAll(mpicc, "/", "-"))
	if out, err := exec.Command(mpicc, "-O2", "-o", program, testdata("mpi/"+name+".c")).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", name, err, out)
	}
	return program
}

// mpiHosts returns two hosts with different boot ids, since MPI takes hosts of one boot for one machine.
func mpiHosts(t testing.TB) *lab.Cluster {
	t.Helper()
	return lab.MustNamespaces(t, lab.Spec{Boot: "5a1f0a52-6d2c-4f6e-9d0e-0d5f7f3c0001"}, lab.Spec{Boot: "5a1f0a52-6d2c-4f6e-9d0e-0d5f7f3c0002"})
}

// MPICH programs run as under their own launcher, on one host and on several.
func TestMPICHPrograms(t *testing.T) {
	pi := mpiProgram(t, mpich(t)+"/bin/mpicc", "pi")
	c := mpiHosts(t)
	for _, tc := range []struct {
		name string
		args []string
		want []string // by rank: ranks on its node, program
	}{
		{"two hosts", []string{"-np", "4", "-H", "f1:2,f2:2", pi}, []string{"2 0", "2 0", "2 0", "2 0"}},
		{"uneven", []string{"-np", "3", "-H", "f1:2,f2:1", pi}, []string{"2 0", "2 0", "1 0"}},
		{"in turn", []string{"-np", "5", "-H", "f1:3,f2:3", "--map-by", "node", pi}, []string{"3 0", "2 0", "3 0", "2 0", "3 0"}},
		{"more ranks than slots", []string{"-np", "8", "-H", "f1:2,f2:2", pi}, slices.Repeat([]string{"4 0"}, 8)},
		{"two programs", []string{"-np", "1", "-H", "f1", pi, ":", "-np", "2", "-H", "f2:2", pi}, []string{"1 0", "2 1", "2 1"}},
		{"in a shell", []string{"-np", "2", "-H", "f1,f2", "sh", "-c", "true; " + pi + "; exit $?"}, []string{"1 0", "1 0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, c, append([]string{"--prefix", "none"}, tc.args...)...).want(0)
			r.wantPlaces(tc.want)
		})
	}
}

// Debian's MPICH has a PMI client of another generation. Python programs run with both.
func TestOtherMPICHs(t *testing.T) {
	old := mpiProgram(t, "mpicc.mpich", "pi")
	r := start(t, nil, "--prefix", "none", "-np", "3", old).want(0)
	if n := strings.Count(r.out.String(), " of 3, 3 on its node, program 0: 3.141593\n"); n != 3 {
		t.Errorf("%d ranks of MPICH 4.0 found the others:\n%s", n, &r.out)
	}
	start(t, nil, "-np", "3", old, "abort", "42").want(42, "rank 1 on localhost called MPI_Abort(42)")
	start(t, nil, "-np", "3", old, "leave").want(1, "rank 1 on localhost ended after MPI_Init without MPI_Finalize")

	packages, err := filepath.Glob(mpich(t) + "/lib/python3*/*-packages")
	if err != nil || len(packages) != 1 {
		t.Fatalf("mpi4py is in %q, %v", packages, err)
	}
	r = startIn(t, mpiHosts(t), []string{"PYTHONPATH=" + packages[0], "LD_LIBRARY_PATH=" + mpich(t) + "/lib"}, "--prefix", "none", "-np", "3", "-H", "f1:2,f2",
		"python3", "-c", "from mpi4py import MPI; c = MPI.COMM_WORLD; print(c.rank, c.size, c.allreduce(c.rank + 1))").want(0)
	for rank := range 3 {
		if line := fmt.Sprintf("%d 3 6\n", rank); !strings.Contains(r.out.String(), line) {
			t.Errorf("rank %d did not say %q:\n%s", rank, line, &r.out)
		}
	}
}

func TestMPICHServicesAndSpawn(t *testing.T) {
	pi := mpiProgram(t, mpich(t)+"/bin/mpicc", "pi")
	c := mpiHosts(t)
	r := start(t, c, "-np", "2", "-H", "f1,f2", pi, "publish").want(0)
	if n := strings.Count(r.out.String(), "found some#port$here"); n != 2 {
		t.Errorf("%d ranks found the service:\n%s", n, &r.out)
	}
	r = start(t, c, "-np", "2", "-H", "f1,f2", pi, "spawn").want(0)
	if n := strings.Count(r.out.String(), "not spawned"); n != 2 {
		t.Errorf("%d ranks heard that nothing is spawned:\n%s", n, &r.out)
	}
}

// In a container that inherits no open files MPICH connects to a port. This docker stand-in differs in that only.
func TestMPICHInContainers(t *testing.T) {
	pi := mpiProgram(t, mpich(t)+"/bin/mpicc", "pi")
	docker := filepath.Join(t.TempDir(), "docker")
	script := "#!/bin/sh\n[ -z \"$PMI_FD\" ] && shift 2 && exec \"$@\" 3>&-\n"
	if err := os.WriteFile(docker, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	c := mpiHosts(t)
	r := start(t, c, "-np", "3", "-H", "f1:2,f2:1", docker, "run", "image", pi).want(0)
	if n := strings.Count(r.out.String(), " of 3, "); n != 3 {
		t.Errorf("%d ranks found the others:\n%s", n, &r.out)
	}
	start(t, c, "-np", "3", "-H", "f1:2,f2:1", docker, "run", "image", pi, "abort", "42").want(42, "rank 1 on f1 called MPI_Abort(42)")
	start(t, c, "-np", "3", "-H", "f1:2,f2:1", docker, "run", "image", pi, "leave").want(1, "rank 1 on f1 ended after MPI_Init without MPI_Finalize")
}

// wantPlaces checks the lines of pi by rank: the number of ranks on its node, and its program.
func (r *run) wantPlaces(places []string) {
	r.t.Helper()
	for rank, place := range places {
		node, program, _ := strings.Cut(place, " ")
		line := fmt.Sprintf("%d of %d, %s on its node, program %s: 3.141593\n", rank, len(places), node, program)
		if !strings.Contains(r.out.String(), line) {
			r.t.Errorf("rank %d did not say %q:\n%s", rank, line, &r.out)
		}
	}
}

// wantDeath kills a process of the program when all ranks are up, and checks how the job ends.
func (r *run) wantDeath(program string, ranks int) {
	r.t.Helper()
	await(r.t, "the ranks", func() bool { return strings.Count(r.out.String(), "up\n") == ranks })
	pids := lab.Processes(r.mark)
	i := slices.IndexFunc(pids, func(pid int) bool { return strings.HasPrefix(procFile(pid, "cmdline"), program+"\x00") })
	if i < 0 {
		r.t.Fatalf("no process runs %s", program)
	}
	if err := syscall.Kill(pids[i], syscall.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
	r.want(137, "was killed by signal 9")
}

// A rank that aborts or crashes ends the job with the right code and message.
func TestMPICHFailures(t *testing.T) {
	pi := mpiProgram(t, mpich(t)+"/bin/mpicc", "pi")
	c := mpiHosts(t)
	hosts := []string{"-np", "3", "-H", "f1:2,f2:1", pi}
	start(t, c, append(hosts, "abort", "42")...).want(42, "rank 1 on f1 called MPI_Abort(42)")
	start(t, c, append(hosts, "abort", "0")...).want(1, "rank 1 on f1 called MPI_Abort(0)")
	start(t, c, append(hosts, "leave")...).want(1, "rank 1 on f1 ended after MPI_Init without MPI_Finalize")

	r := start(t, c, append(hosts, "wait")...)
	r.wantDeath(pi, 3)
}

// Open MPI programs do not run silently as many jobs of one rank.
func TestOpenMPIIsPointedOut(t *testing.T) {
	program := mpiProgram(t, "mpicc.openmpi", "pi")
	r := startIn(t, nil, []string{"OMPI_MCA_btl=self,vader"}, "-np", "2", program).want(0, program+" is linked with Open MPI")
	if n := strings.Count(r.out.String(), "0 of 1, "); n != 2 {
		t.Errorf("%d ranks are alone:\n%s", n, &r.out)
	}
	r = startIn(t, nil, []string{"OMPI_MCA_btl=self,vader"}, "-np", "1", program).want(0)
	if strings.Contains(r.err.String(), "Open MPI") {
		t.Errorf("one rank is warned:\n%s", &r.err)
	}
}

// Open MPI programs up to 4.1 are one job with the library that gorun gives them, of which no file is left.
func TestOpenMPI4(t *testing.T) {
	program := mpiProgram(t, "mpicc.openmpi", "pi")
	beside := filepath.Dir(binary("gorun"))
	cc := exec.Command("cc", "-std=c11", "-O2", "-shared", "-fPIC", "-o", filepath.Join(beside, "gorun-ompi4.so"), root+"/internal/pmi/ompi4/libpmi.c")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("build the library: %v: %s", err, out)
	}
	c := mpiHosts(t)
	mpi := []string{"--prefix", "none", "--mpi", "ompi4"}
	for _, tc := range []struct {
		name string
		args []string
		want []string // by rank: ranks on its node, program
	}{
		{"two hosts", []string{"-np", "4", "-H", "f1:2,f2:2", program}, []string{"2 0", "2 0", "2 0", "2 0"}},
		{"uneven, in turn", []string{"-np", "5", "-H", "f1:3,f2:3", "--map-by", "node", program}, []string{"3 0", "2 0", "3 0", "2 0", "3 0"}},
		{"two programs, in a shell", []string{"-np", "1", "-H", "f1", program, ":", "-np", "2", "-H", "f2:2", "sh", "-c", program}, []string{"1 0", "2 1", "2 1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, c, append(mpi, tc.args...)...).want(0)
			r.wantPlaces(tc.want)
			if strings.Contains(r.err.String(), "linked with Open MPI") {
				t.Errorf("gorun warns of what it was asked for:\n%s", &r.err)
			}
		})
	}
	hosts := append(mpi, "-np", "3", "-H", "f1:2,f2:1", program)
	start(t, c, append(hosts, "abort", "42")...).want(42, "rank 1 on f1 called MPI_Abort(42)")
	start(t, c, append(hosts, "leave")...).want(1, "rank 1 on f1 ended after MPI_Init without MPI_Finalize")
	r := start(t, c, append(hosts, "wait")...)
	r.wantDeath(program, 3)
	if left, _ := filepath.Glob("/dev/shm/*"); slices.ContainsFunc(left, func(name string) bool {
		return strings.Contains(name, "vader") || strings.Contains(name, "ompi4")
	}) {
		t.Errorf("left in shared memory: %q", left)
	}
}

func TestMistakenMPIs(t *testing.T) {
	start(t, nil, "-np", "2", "--mpi", "pmix", "true").want(2, "gorun does not speak PMIx", "--mpi ompi4")
	start(t, nil, "-np", "2", "--mpi", "lam", "true").want(2, `--mpi "lam": it must be pmi1, for programs of MPICH`, "or ompi4, for those of Open MPI up to 4.1")
}
