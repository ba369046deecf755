package services

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/linkage"
	"github.com/gorun/gorun/internal/host/memexec"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func TestOpenMPI4LeavesNothing(t *testing.T) {
	s := &Services{job: wire.Job{MPI: wire.MPI{OpenMPI4: []byte("library")}}}
	must.OK(t, s.openMPI(Options{MPI: MPI{OpenMPI4: true}}))
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", s.ompi4.Fd()))
	check.That(t, string(text) == "library" && err == nil, "ranks would load %q, %v", text, err)
	_, err = s.ompi4.WriteAt([]byte("x"), 0)
	check.That(t, err != nil, "a rank can change what others load")
	must.OK(t, os.WriteFile(s.folder+"/vader_segment", nil, 0o600))
	s.Remove()
	_, err = os.Stat(s.folder)
	check.That(t, os.IsNotExist(err), "the folder is still there: %v", err)
}

// Components of libpmix are in folders that variables name, perhaps by relative paths.
func TestRelativePathsLeadTheServerNowhere(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	packed := must.Get(memexec.Pack([]byte("program")))(t)
	s := &Services{job: wire.Job{MPI: wire.MPI{PMIx: packed}}, mpi: &mpi{}}
	var folder string
	start := func(_, dir string, _, _ []string, _ []*os.File) error {
		folder = dir
		return errors.New("not started")
	}
	check.Error(s.openMPI(Options{MPI: MPI{PMIx: true}, Start: start})).Says(t, "not started")
	s.Remove()
	_, err := os.Stat(filepath.Join(folder, "tmp"))
	check.That(t, filepath.IsAbs(folder) && os.IsNotExist(err), "in %q: %v", folder, err)
}

// What a killed agent has left is removed, and not what another user has given such a name.
func TestFolderOfAKilledAgentIsRemoved(t *testing.T) {
	lab.NeedRoot(t)
	t.Setenv("TMPDIR", t.TempDir())
	guard := must.Get(contain.Self())(t)
	own := must.Get(newFolder(folderParents(), guard))(t)
	theirs := filepath.Join(os.TempDir(), folderPrefix(guard)+"x")
	must.OK(t, errors.Join(os.Mkdir(theirs, 0o700), os.Chown(theirs, 65533, 65533)))
	RemoveFolder(guard)
	_, err := os.Stat(own)
	check.That(t, os.IsNotExist(err), "%s: %v", own, err)
	_, err = os.Stat(theirs)
	check.OK(t, err)
}

// A folder where another user could put another one in its place is not used, and nothing is
// removed there.
func TestFoldersOfOthersHaveNoSharedMemory(t *testing.T) {
	lab.NeedRoot(t)
	guard := must.Get(contain.Self())(t)
	for name, mode := range map[string]os.FileMode{"open to all": 0o777, "another user's": 0o755} {
		t.Run(name, func(t *testing.T) {
			parent := filepath.Join(t.TempDir(), "tmp")
			must.OK(t, errors.Join(os.Mkdir(parent, 0o700), os.Chmod(parent, mode)))
			if mode == 0o755 {
				must.OK(t, os.Chown(parent, 65533, 65533))
			}
			folder, err := newFolder([]string{parent}, guard)
			var refused *trust.Error
			check.Error(err).As(t, &refused, folder)
			t.Setenv("TMPDIR", parent)
			left := filepath.Join(parent, folderPrefix(guard)+"x")
			must.OK(t, os.Mkdir(left, 0o700))
			RemoveFolder(guard)
			must.Get(os.Stat(left))(t)
			must.OK(t, os.Chmod(parent, 0o777|os.ModeSticky))
			must.OK(t, os.Chown(parent, 0, 0))
			must.Get(newFolder([]string{parent}, guard))(t)
		})
	}
}

func TestWhatProgramsNeed(t *testing.T) {
	four := Use{Use: linkage.Use{MPI: linkage.OpenMPI4}}
	five := Use{Use: linkage.Use{MPI: linkage.OpenMPI, PMIx: "/lib/libpmix.so.2"}}
	external := Use{Use: linkage.Use{MPI: linkage.OpenMPI4, PMIx: "/lib/libpmix.so.2"}}
	guess := Use{five.Use, true}
	other := Use{Use: linkage.Use{MPI: linkage.OpenMPI, PMIx: "/other"}}
	both := wire.MPI{OpenMPI4: []byte("library"), PMIx: []byte("program")}
	for name, tt := range map[string]struct {
		sent         wire.MPI
		size         int
		uses         []Use
		withoutFiles bool
		want         MPI
		note         string
	}{
		"nothing": {sent: both, size: 2, uses: []Use{{}, {Use: linkage.Use{MPI: linkage.MPICH}}},
			want: MPI{Unknown: true}},
		"all known": {sent: both, size: 2, uses: []Use{{Use: linkage.Use{MPI: linkage.MPICH}}}},
		"a guess": {sent: both, size: 2, uses: []Use{guess},
			want: MPI{PMIx: true, Library: "/lib/libpmix.so.2", Guess: true}},
		"a right guess": {sent: both, size: 2, uses: []Use{guess, five},
			want: MPI{PMIx: true, Library: "/lib/libpmix.so.2"}},
		"a vain guess": {size: 2, uses: []Use{guess}, note: "x names a program of Open MPI"},
		"one of each": {sent: both, size: 2, uses: []Use{five, four, other},
			want: MPI{OpenMPI4: true, PMIx: true, Library: "/lib/libpmix.so.2"}},
		"external PMIx": {sent: both, size: 2, uses: []Use{external},
			want: MPI{PMIx: true, Library: "/lib/libpmix.so.2"}},
		"and no server": {sent: wire.MPI{OpenMPI4: []byte("library")}, size: 2, uses: []Use{external},
			want: MPI{OpenMPI4: true}},
		"and its own": {sent: both, size: 2, uses: []Use{external, four},
			want: MPI{OpenMPI4: true, PMIx: true, Library: "/lib/libpmix.so.2"}},
		"no library":     {size: 2, uses: []Use{four}, note: "gorun needs gorun-ompi4.so in"},
		"no server":      {size: 2, uses: []Use{five}, note: "x is linked with Open MPI"},
		"a rank alone":   {size: 1, uses: []Use{five}},
		"in a container": {sent: both, size: 2, uses: []Use{five}, withoutFiles: true},
	} {
		var got MPI
		for _, use := range tt.uses {
			got.Add(wire.Job{MPI: tt.sent, Size: tt.size}, "x", use, tt.withoutFiles, map[string]string{"A": "1"})
		}
		note := got.Note
		check.That(t, strings.Contains(note, tt.note) && (note == "") == (tt.note == ""), "%s: note %q", name, note)
		check.That(t, got.PMIx == slices.Equal(got.Env, []string{"A=1"}), "%s: environment %q", name, got.Env)
		got.Note = ""
		got.Env = nil
		check.That(t, reflect.DeepEqual(got, tt.want), "%s: %+v, want %+v", name, got, tt.want)
	}
}

// A job without Open MPI gets no folder.
func TestOpenMPIIsNotPrepared(t *testing.T) {
	s := &Services{job: wire.Job{MPI: wire.MPI{OpenMPI4: []byte("library"), PMIx: []byte("program")}}}
	err := s.openMPI(Options{})
	check.That(t, err == nil && s.folder == "" && s.ompi4 == nil && s.pmix == nil, "%+v, %v", s, err)
}

func TestNumbersOfJobs(t *testing.T) {
	seen := map[uint32]bool{}
	for i := range 1000 {
		n := numberOf(fmt.Sprint("job", i))
		must.That(t, int16(n) > 0 && int16(n>>16) >= 0, "job %d has number %#x", i, n)
		seen[n] = true
	}
	check.That(t, len(seen) >= 990, "1000 jobs have %d numbers", len(seen))
}

// A rank that called MPI_Abort ended with that code, however it ended then.
func TestAbortWins(t *testing.T) {
	m := startMPI(t, wire.Job{})
	defer m.close()
	m.aborted(1, 6)
	m.aborted(1, 300)
	for _, end := range []struct{ code, signal int }{{0, 9}, {0, 11}, {1, 0}, {0, 0}} {
		got := m.end(1, end.code, end.signal, nil)
		check.That(t, got.MPI == wire.MPIAborted && got.Code == 6 && got.Signal == 0 && !got.Aborted.IsZero(),
			"%+v: %+v", end, got)
	}
	check.Equal(t, m.end(2, 0, 11, nil), (End{Signal: 11}), "another rank")
}
