package output

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Results go into no folder and no file of another user, also if that user makes them while the job
// runs.
func TestResultsOfAnotherUserAreNotOverwritten(t *testing.T) {
	const stranger = 65533
	if os.Geteuid() != 0 {
		lab.Skip(t, "needs root")
	}
	dir := t.TempDir()
	must.OK(t, os.Chown(dir, stranger, stranger))
	check.Error(OpenResults(dir, 10)).Any(t, "another user's folder was taken")
	dir = t.TempDir()
	r, err := OpenResults(dir, 10)
	must.OK(t, err)
	theirs := filepath.Join(dir, "theirs")
	must.OK(t, errors.Join(os.WriteFile(theirs, []byte("theirs"), 0o666), os.Mkdir(filepath.Join(dir, "rank.1"), 0o777),
		os.Symlink(theirs, r.unnamed(0)),
		os.Lchown(theirs, stranger, stranger), os.Lchown(filepath.Join(dir, "rank.1"), stranger, stranger),
		os.Lchown(r.unnamed(0), stranger, stranger)))
	for process := range 3 {
		r.write(process, []byte("result"))
	}
	err = r.Close([]int{0, 1, 2})
	check.That(t, err != nil && strings.Contains(err.Error(), "the result of rank 0 is lost: ") &&
		strings.Contains(err.Error(), "the result of rank 1 is lost: ") && !strings.Contains(err.Error(), "rank 2"),
		"close: %v", err)
	expectFiles(t, dir, map[string]string{"theirs": "theirs", "rank.2/result": "result"})
	left, _ := os.ReadDir(filepath.Join(dir, "rank.1"))
	check.That(t, len(left) == 0, "in another user's folder: %v", left)
}

// Another user who owns the folder above, and puts a link in the place of the results' folder,
// removes and replaces no result of another job.
func TestResultsAreKeptThroughNoLinkOfOthers(t *testing.T) {
	const stranger = 65533
	lab.NeedRoot(t)
	above := t.TempDir()
	old := t.TempDir()
	must.OK(t, errors.Join(os.Mkdir(filepath.Join(old, "rank.0"), 0o700),
		os.WriteFile(filepath.Join(old, "rank.0/result"), []byte("old"), 0o600),
		os.WriteFile(filepath.Join(old, ".process.1"), []byte("old"), 0o600)))
	dir := filepath.Join(above, "results")
	r, err := OpenResults(dir, 10)
	must.OK(t, err)
	r.write(0, []byte("result"))
	r.write(1, []byte("more than the limit"))
	must.OK(t, errors.Join(os.Rename(dir, dir+"2"), os.Symlink(old, dir), os.Lchown(dir, stranger, stranger)))
	check.Error(r.Close([]int{0})).Any(t)
	expectFiles(t, old, map[string]string{"rank.0/result": "old", ".process.1": "old"})
}

// A job may have more processes than gorun can have descriptors. Another user's file in the place
// of one that gorun has begun gets nothing.
func TestResultsKeepNoFileOpen(t *testing.T) {
	const stranger = 65533
	lab.NeedRoot(t)
	dir := t.TempDir()
	r := must.Get(OpenResults(dir, 100))(t)
	open := func() int { return len(must.Get(os.ReadDir("/proc/self/fd"))(t)) }
	before := open()
	for _, text := range []string{"first ", "second"} {
		for process := range 100 {
			r.write(process, []byte(text))
		}
	}
	check.That(t, open() < before+50, "%d files are open, %d before", open(), before)
	theirs := filepath.Join(dir, ".process.1")
	must.OK(t, errors.Join(os.Remove(theirs), os.WriteFile(theirs, nil, 0o666), os.Chown(theirs, stranger, stranger)))
	r.write(1, []byte(" and a secret"))
	check.Error(r.Close([]int{7, 1})).Says(t, "the result of rank 1 is lost")
	expectFiles(t, dir, map[string]string{"rank.0/result": "first second"})
}
