package services

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/files"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// A process is judged by the libraries that it has loaded, which are only mapped here, and by what
// its rank is served.
func TestProcessThatWillBeAlone(t *testing.T) {
	self := must.Get(os.Executable())(t)
	dir := files.Make(t, map[string]string{"libmpi.so.40": "x", "libmpi.so.12": "x", "libopen-pal.so.80": "x",
		"libopen-rte.so.40": "x"})
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
		"of another job":    {five, []string{"GORUN_RANK=7"}, ""},
	} {
		argv := slices.Concat([]string{"-i"}, tt.env, []string{self, mapWord})
		for _, library := range tt.libraries {
			argv = append(argv, filepath.Join(dir, library))
		}
		rank, text := alone(lab.StartProcess(t, "env", argv...), []wire.Rank{{Rank: 2}, {Rank: 3}})
		check.That(t, strings.Contains(text, tt.want) && (text == "") == (tt.want == "") && (text == "" || rank == 3),
			"%s: rank %d, %q", name, rank, text)
	}
}

// mapFiles maps files, for as long as it is let.
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
	_ = unix.Pause()
	return 0
}

func TestHostsThatLead(t *testing.T) {
	job := wire.Job{Shares: []int{2, 2}}
	for rank, want := range []bool{true, false, true, false} {
		job.Ranks = []wire.Rank{{Rank: rank}}
		check.That(t, leads(job) == want, "the host of rank %d leads: %v", rank, !want)
	}
}
