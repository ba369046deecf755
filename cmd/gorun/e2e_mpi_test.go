package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/lab"
)

// mpiProgram builds a program of testdata/mpi with MPICH.
func mpiProgram(t *testing.T, name string) string {
	t.Helper()
	lab.Need(t, "mpicc.mpich")
	program := binary("mpich-" + name)
	if out, err := exec.Command("mpicc.mpich", "-O2", "-o", program, filepath.Join("testdata/mpi", name+".c")).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", name, err, out)
	}
	return program
}

// mpiHosts are two hosts for MPICH programs. They have one boot id, which UCX takes for one machine: it must be told to use TCP.
func mpiHosts(t *testing.T) *lab.Cluster {
	t.Helper()
	tcp := lab.Spec{Env: []string{"UCX_TLS=tcp,self"}}
	return lab.MustNamespaces(t, tcp, tcp)
}

// MPICH's programs run as under its own launcher, on one host and on several.
func TestMPICHPrograms(t *testing.T) {
	pi := mpiProgram(t, "pi")
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
		{"in a shell", []string{"-np", "2", "-H", "f1,f2", "sh", "-c", pi + " && exec " + pi}, []string{"1 0", "1 0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, c, append([]string{"--prefix", "none"}, tc.args...)...).want(0)
			for rank, want := range tc.want {
				node, program, _ := strings.Cut(want, " ")
				line := fmt.Sprintf("%d of %d, %s on its node, program %s: 3.141593\n", rank, len(tc.want), node, program)
				if !strings.Contains(r.out.String(), line) {
					t.Errorf("rank %d did not say %q:\n%s", rank, line, &r.out)
				}
			}
		})
	}
}

func TestMPICHServicesAndSpawn(t *testing.T) {
	pi := mpiProgram(t, "pi")
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

// What a rank does to the others ends the job, with the code and the words that fit.
func TestMPICHFailures(t *testing.T) {
	pi := mpiProgram(t, "pi")
	c := mpiHosts(t)
	hosts := []string{"-np", "3", "-H", "f1:2,f2:1", pi}
	start(t, c, append(hosts, "abort", "42")...).want(42, "rank 1 on f1 called MPI_Abort(42)")
	start(t, c, append(hosts, "abort", "0")...).want(1, "rank 1 on f1 called MPI_Abort(0)")
	start(t, c, append(hosts, "leave")...).want(1, "rank 1 on f1 ended after MPI_Init without MPI_Finalize")

	r := start(t, c, append(hosts, "wait")...)
	await(t, "the ranks", func() bool { return strings.Count(r.out.String(), "up\n") == 3 })
	i := slices.IndexFunc(lab.Processes(r.mark), func(pid int) bool { return strings.HasPrefix(procFile(pid, "cmdline"), pi+"\x00") })
	if err := syscall.Kill(lab.Processes(r.mark)[i], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.want(137, "was killed by signal 9")
}
