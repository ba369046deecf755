package faults

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/buildid"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// evil is a program that leaves a trace when it runs.
const evil = "#!/bin/sh\ntouch $HOME/ran-a-foreign-program\n"

// stock is the cache of a host, and the user's files beside it.
type stock struct {
	*harness
	gorun string // on the launcher's host alone
	sent  []byte
	home  string // of host f1, from outside
	dir   string // in it, where gorun is to be
}

func newStock(t *testing.T, specs ...lab.Spec) *stock {
	t.Helper()
	b := newHarness(t, lab.MustNamespaces(t, specs...))
	s := &stock{harness: b, gorun: b.install(), home: b.c.Host("f1").Home}
	// gorun's next choice where the home does not do
	must.OK(t, b.c.Disk(t.Context(), "f1", "/var/tmp", 64<<10))
	b.on("f1", "chmod 1777 /var/tmp")
	s.sent = must.Get(os.ReadFile(binary("gorun")))(t)
	s.dir = filepath.Join(s.home, ".cache/gorun", buildid.Folder(buildid.In(s.sent)))
	s.must(os.Mkdir(filepath.Join(s.home, "thesis"), 0o755))
	s.must(os.WriteFile(filepath.Join(s.home, "thesis/text"), []byte("years of work\n"), 0o755))
	return s
}

// job runs a job on f1 and checks that nothing but gorun was run or changed. It returns how often
// gorun was sent.
func (s *stock) job(codes ...int) (uploads int, j *Job) {
	s.t.Helper()
	j, w := s.run(s.gorun, "-F", "{config}", "-v", "--wdir", "/", "--prefix", "none", "-H", "f1", "echo", "ran")
	beside := names(filepath.Join(s.home, "thesis"))
	at := time.Now()
	<-j.Ended()
	s.judge(w, j, at, Expect{Codes: codes, End: 30 * time.Second, Clean: 31 * time.Second})
	text, err := os.ReadFile(filepath.Join(s.home, "thesis/text"))
	check.That(s.t, string(text) == "years of work\n", "the user's file is %.40q: %v", text, err)
	now := names(filepath.Join(s.home, "thesis"))
	check.That(s.t, now == beside, "the user's folder had %s and has %s", beside, now)
	check.Error(os.Lstat(filepath.Join(s.home, "ran-a-foreign-program"))).Any(s.t, "another program was run")
	ran := j.Out.String() == "ran\n"
	check.That(s.t, ran == (j.Code() == 0), "exit code %d with the output %q", j.Code(), &j.Out)
	return strings.Count(j.Err.String(), "uploaded gorun to"), j
}

func names(dir string) string {
	list, _ := os.ReadDir(dir)
	return fmt.Sprint(list)
}

// D15: the file under gorun's name in the cache is not gorun, or cannot run. It never runs: gorun
// is sent again, and the job runs.
func TestChangedCacheNeverRuns(t *testing.T) {
	t.Parallel()
	s := newStock(t, lab.Specs(1)...)
	n, _ := s.job(0)
	check.That(t, n == 1, "the first job has sent gorun %d times", n)
	file := filepath.Join(s.dir, "gorun")
	const thesis = "../../../thesis" // as the host sees it, too
	for name, harm := range map[string]func() error{
		"a byte is another": func() error { // at the end, where no program looks
			f, err := os.OpenFile(file, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			last := int64(len(s.sent) - 1)
			_, err = f.WriteAt([]byte{s.sent[last] ^ 1}, last)
			return err
		},
		"truncated":        func() error { return os.Truncate(file, int64(len(s.sent)/2)) },
		"empty":            func() error { return os.Truncate(file, 0) },
		"another program":  func() error { return os.WriteFile(file, []byte(evil), 0) },
		"not executable":   func() error { return os.Chmod(file, 0o400) },
		"a pipe":           func() error { return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o700)) },
		"a link to a file": func() error { return errors.Join(os.Remove(file), os.Symlink(thesis+"/text", file)) },
		"a link to a folder": func() error {
			return errors.Join(os.Remove(file), os.Symlink(thesis, file))
		},
		"another program, older than the mark": func() error {
			long := time.Now().Add(-time.Hour)
			return errors.Join(os.WriteFile(file, []byte(evil), 0), os.Chtimes(file, long, long))
		},
		"another program, and the mark is a link": func() error {
			mark := filepath.Join(s.dir, "checked")
			return errors.Join(os.WriteFile(file, []byte(evil), 0), os.Remove(mark), os.Symlink(thesis+"/text", mark))
		},
		"another program, and the mark is a pipe": func() error {
			mark := filepath.Join(s.dir, "checked")
			return errors.Join(os.WriteFile(file, []byte(evil), 0), os.Remove(mark), syscall.Mkfifo(mark, 0o600))
		},
	} {
		s.must(harm())
		for again, want := range []int{1, 0} {
			n, j := s.job(0)
			check.That(t, n == want, "%s: job %d has sent gorun %d times, want %d: %s", name, again, n, want, &j.Err)
		}
		text, err := os.ReadFile(file)
		check.That(t, err == nil && bytes.Equal(text, s.sent), "%s: the file is not what was sent (%v)", name, err)
	}
	// The file is intact and only has a new time: it is not sent again.
	s.must(os.Chtimes(file, time.Now(), time.Now()))
	if n, j := s.job(0); n != 0 {
		t.Errorf("a file that was only touched was sent again: %s", &j.Err)
	}
}

// G5: the cache is full of foreign files. gorun works or names the obstacle, and no foreign file is
// run or lost.
func TestForeignFilesInTheCacheNeverRun(t *testing.T) {
	t.Parallel()
	s := newStock(t, lab.Specs(1)...)
	ran := 0
	const rounds = 10
	for seed := range uint64(rounds) {
		rnd := rand.New(rand.NewPCG(seed, 15))
		s.must(os.RemoveAll(filepath.Join(s.home, ".cache")))
		s.on("f1", "rm -rf /var/tmp/*; cd ~/thesis && find . -mindepth 1 -not -name text -delete")
		var did []string
		for _, path := range []string{filepath.Join(s.home, ".cache"), filepath.Dir(s.dir), s.dir, s.dir + "/gorun",
			s.dir + "/checked", s.dir + "/other"} {
			if strings.HasPrefix(s.dir, path) && rnd.IntN(6) > 0 { // mostly what is further down
				_ = os.MkdirAll(path, 0o700) // unless another file is above
			} else if what := clutter(rnd, path); what != "" {
				did = append(did, filepath.Base(path)+": "+what)
			}
		}
		before := listing(filepath.Join(s.home, ".cache"))
		uploads, j := s.job(0, 125)
		switch {
		case j.Code() == 0:
			ran++
		case !strings.Contains(j.Err.String(), "f1: "):
			t.Errorf("no host is named: %s", &j.Err)
		}
		after := listing(filepath.Join(s.home, ".cache"))
		for path, what := range before {
			check.That(t, !strings.HasSuffix(path, "/keep") || after[path] == what,
				"%s was %q and is %q", path, what, after[path])
		}
		must.That(t, !t.Failed(), "seed %d, %q, %d uploads: %s", seed, did, uploads, &j.Err)
		t.Logf("seed %d: exit code %d, %d uploads, with %q", seed, j.Code(), uploads, did)
	}
	check.That(t, ran >= rounds/2, "only %d of %d jobs ran", ran, rounds)
}

// clutter puts something at path, if its folder exists, and describes it; "" means nothing.
// Links lead to the user's files, seen from the folder of gorun itself or from the one above it.
func clutter(rnd *rand.Rand, path string) string {
	up := strings.Repeat("../", 1+rnd.IntN(3))
	noise := make([]byte, rnd.IntN(5000))
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	var what string
	var err error
	switch rnd.IntN(9) {
	case 0:
		return ""
	case 1, 2:
		what = "noise"
		err = os.WriteFile(path, noise, 0o700)
	case 3, 4:
		what = "a program"
		err = os.WriteFile(path, []byte(evil), 0o700)
	case 5:
		what = "a link to a file"
		err = os.Symlink(up+"thesis/text", path)
	case 6:
		what = "a link to a folder"
		err = os.Symlink(up+"thesis", path)
	case 7:
		what = "a folder"
		err = errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "keep"), []byte("mine"), 0o600))
	case 8:
		what = "a pipe"
		err = syscall.Mkfifo(path, 0o700)
	}
	if err != nil { // something else is above
		return ""
	}
	return what
}

// listing returns every file of a folder with its content.
func listing(dir string) map[string]string {
	all := map[string]string{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, _ := os.ReadFile(path)
			all[path] = string(text)
		}
		return nil
	})
	return all
}
