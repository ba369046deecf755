package services

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/wire"
)

// A process is judged by the libraries that it has loaded, which are only mapped here, and by what
// its rank is served.
func TestProcessThatWillBeAlone(t *testing.T) {
	dir := t.TempDir()
	five := []string{"libmpi.so.40", "libopen-pal.so.80"}
	four := []string{"libmpi.so.40", "libopen-rte.so.40"}
	for name, tt := range map[string]struct {
		libraries, env []string
		want           string
	}{
		"open mpi 5":        {five, []string{"GORUN_RANK=3"}, "--mpi pmix"},
		"served open mpi 5": {five, []string{"GORUN_RANK=3", "PMIX_RANK=3"}, ""},
		"open mpi 4":        {four, []string{"GORUN_RANK=3"}, "--mpi ompi4"},
		"served open mpi 4": {four, []string{"GORUN_RANK=3", "FLUX_PMI_LIBRARY_PATH=/x"}, ""},
		"by PMIx":           {four, []string{"GORUN_RANK=3", "PMIX_RANK=3", "FLUX_JOB_ID=1"}, ""},
		"for open mpi 5":    {four, []string{"GORUN_RANK=3", "PMIX_RANK=3"}, "--mpi ompi4"},
		"mpich":             {[]string{"libmpi.so.12"}, []string{"GORUN_RANK=3"}, ""},
		"no rank":           {five, nil, ""},
	} {
		cmd := exec.Command("/proc/self/exe", mapWord)
		for _, library := range tt.libraries {
			path := filepath.Join(dir, library)
			if err := os.WriteFile(path, []byte("library"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd.Args = append(cmd.Args, path)
		}
		cmd.Env = append([]string{}, tt.env...)
		stdin, err1 := cmd.StdinPipe()
		stdout, err2 := cmd.StdoutPipe()
		if err1 != nil || err2 != nil || cmd.Start() != nil {
			t.Fatal(err1, err2)
		}
		if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
			t.Fatal(line, err)
		}
		rank, text := alone(cmd.Process.Pid)
		stdin.Close()
		_ = cmd.Wait()
		if !strings.Contains(text, tt.want) || (text == "") != (tt.want == "") || text != "" && rank != 3 {
			t.Errorf("%s: rank %d, %q", name, rank, text)
		}
	}
}

// mapFiles maps files until stdin ends.
func mapFiles(paths []string) int {
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return 1
		}
		if _, err := unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ, unix.MAP_PRIVATE); err != nil {
			return 1
		}
	}
	fmt.Println("mapped")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func TestHostsThatLead(t *testing.T) {
	job := wire.Job{Shares: []int{2, 2}}
	for rank, want := range []bool{true, false, true, false} {
		job.Ranks = []wire.Rank{{Rank: rank}}
		if leads(job) != want {
			t.Errorf("the host of rank %d leads: %v", rank, !want)
		}
	}
}
