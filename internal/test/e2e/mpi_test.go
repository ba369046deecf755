package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// mpich installs PyPI's MPICH with mpi4py, once for all tests, and returns its path. Debian 12's
// MPICH 4.0.2 is unreliable over networks: with UCX on TCP it sometimes hangs in MPI_Finalize under
// any launcher (https://github.com/pmodels/mpich/pull/6596).
func mpich(t testing.TB) string { return mpiFromPyPI(t, "mpich==5.0.2") }

// mpiFromPyPI installs an MPI with mpi4py, once for all tests, and returns its path.
func mpiFromPyPI(t testing.TB, pinned string) string {
	t.Helper()
	lab.Need(t, "python3", "pip3", "cc")
	name, _, _ := strings.Cut(pinned, "==")
	dir := command.Binary(name)
	if tree := mpiTree(dir); tree != "" {
		return tree
	}
	cmd := exec.Command("python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
		"--no-warn-script-location", "--no-deps",
		"--ignore-installed", "--only-binary", ":all:", "--prefix", dir, pinned, "mpi4py==4.1.2")
	cmd.Env = append(os.Environ(), "PIP_ROOT_USER_ACTION=ignore")
	if out, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(dir) // the next test must not take a half for the whole
		lab.Skip(t, fmt.Sprintf("needs %s from PyPI: %v: %s", name, err, out))
	}
	return mpiTree(dir)
}

// intelMPI installs PyPI's Intel MPI with mpi4py, and returns its path.
func intelMPI(t testing.TB) string { return mpiFromPyPI(t, "impi-rt==2021.18.1") }

// intelProgram builds a program of testdata/mpi for Intel MPI, which has MPICH's ABI, and whose
// package has no compiler.
func intelProgram(t testing.TB, tree, name string) string {
	t.Helper()
	program := command.Binary(name + "-intel")
	out, err := exec.Command("cc", "-O2", "-I", mpich(t)+"/include", "-o", program, testdata("mpi/"+name+".c"), "-L",
		tree+"/lib", "-lmpi", "-Wl,-rpath,"+tree+"/lib").CombinedOutput()
	must.That(t, err == nil, "build %s: %v: %s", name, err, out)
	return program
}

// mpiTree returns where in dir pip has installed an MPI, or "". Debian's pip installs below local.
func mpiTree(dir string) string {
	for _, tree := range []string{dir, dir + "/local"} {
		if _, err := os.Stat(tree + "/bin/mpirun"); err == nil {
			return tree
		}
	}
	return ""
}

// mpiProgram builds a program of testdata/mpi with an MPI compiler.
func mpiProgram(t testing.TB, mpicc, name string) string {
	t.Helper()
	lab.Need(t, mpicc)
	program := command.Binary(name + strings.ReplaceAll(mpicc, "/", "-"))
	must.Run(t, exec.Command(mpicc, "-O2", "-o", program, testdata("mpi/"+name+".c")))
	return program
}
