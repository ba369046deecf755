package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"golang.org/x/sys/unix"
)

// placeIn is a user's folders below dir.
func placeIn(dir string) Place {
	return Place{Runtime: filepath.Join(dir, "run", "gorun"), State: filepath.Join(dir, "state", "gorun"), Host: "here"}
}

// open serves a job until the test ends.
func open(t *testing.T, o Options) *Server {
	t.Helper()
	if o.Failed == nil {
		o.Failed = func(err error) { t.Error(err) }
	}
	s := New(o)
	must.OK(t, s.Listen())
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestRunningJobsHaveNamesOfTheirOwn(t *testing.T) {
	p := placeIn(t.TempDir())
	first := open(t, Options{Place: p, Job: Job{Name: "train"}})
	other := p
	other.Host = "there" // a machine with the same home
	for _, tt := range []struct {
		place Place
		job   Job
		taken bool
	}{
		{p, Job{Name: "train"}, true},
		{p, Job{Name: "train", Detached: true}, true},
		{p, Job{Name: first.ID()}, true},
		{p, Job{Name: "trainer"}, false},
		{p, Job{}, false},
		{p, Job{}, false},
		{other, Job{Name: "train"}, false},
	} {
		s := New(Options{Place: tt.place, Job: tt.job, Failed: func(err error) { t.Error(err) }})
		err := s.Listen()
		taken := new(NameTakenError)
		check.That(t, errors.As(err, &taken) == tt.taken && (err == nil || taken.ID == first.ID()),
			"%+v: %v", tt.job, err)
		if err == nil {
			t.Cleanup(func() { _ = s.Close() })
		}
	}
	first.Finish(0, "")
	open(t, Options{Place: p, Job: Job{Name: "train"}}) // while the socket of the first lingers
	var wg sync.WaitGroup
	var won atomic.Int32
	for range 8 {
		wg.Go(func() {
			s := New(Options{Place: p, Job: Job{Name: "race"}})
			if s.Listen() == nil {
				won.Add(1)
				t.Cleanup(func() { _ = s.Close() })
			}
		})
	}
	wg.Wait()
	check.Equal(t, won.Load(), 1, "jobs have one name")
}

func TestJobIsFoundUntilItEnds(t *testing.T) {
	p := placeIn(t.TempDir())
	stops := make(chan Stop, 1)
	s := open(t, Options{Place: p, Job: Job{Name: "train", Size: 2, Program: []string{"a", "b"}},
		Actions: Actions{Stop: func(s Stop) { stops <- s }}})
	for _, name := range []string{"train", s.ID()} {
		f, err := p.Find(t.Context(), name)
		must.That(t, err == nil && f.Client != nil && f.State == Starting && f.Size == 2 && f.Machine == "here",
			"%s: %+v, %v", name, f, err)
	}
	f, _ := p.Find(t.Context(), "train")
	if err := f.Client.Stop(t.Context(), Stop{Signal: 2, Now: true}); err != nil || <-stops != (Stop{2, true}) {
		t.Error(err)
	}
	waited := make(chan Job, 1)
	go func() {
		job, err := f.Client.Wait(context.Background())
		check.OK(t, err)
		waited <- job
	}()
	s.Update(func(j *Job) { j.Exits = append(j.Exits, Exit{Rank: 1, Code: 3}) })
	s.Finish(3, "rank 1 exited")
	job := <-waited
	check.That(t, job.State == Ended && *job.Code == 3 && len(job.Exits) == 1, "%+v", job)
	check.OK(t, s.Close())
	f, err := p.Find(t.Context(), "train")
	check.That(t, err == nil && f.Client == nil && f.State == Ended && *f.Code == 3 && f.Cause == "rank 1 exited",
		"%+v, %v", f, err)
	running, err := p.List(t.Context(), false)
	check.That(t, len(running) == 0 && err == nil, "%+v, %v", running, err)
	left, _ := filepath.Glob(filepath.Join(p.Runtime, "*"))
	check.That(t, len(left) == 0, "left %q", left)
}

func TestNamesOfSeveralJobs(t *testing.T) {
	p := placeIn(t.TempDir())
	open(t, Options{Place: p, Job: Job{Name: "a"}})
	open(t, Options{Place: p}).Update(func(j *Job) { j.Name = "a" }) // as a gorun that did not get the lock
	var none *NoJobError
	_, err := p.Find(t.Context(), "a")
	check.That(t, errors.As(err, &none) && len(none.Among) == 2 && none.Hint() != "", "%v", err)
	open(t, Options{Place: p, Job: Job{Name: "train"}})
	for name, hint := range map[string]string{"b": "gorun ps -a lists", "trian": "did you mean train?"} {
		_, err = p.Find(t.Context(), name)
		check.That(t, errors.As(err, &none) && len(none.Among) == 0 && strings.HasPrefix(none.Hint(), hint),
			"%v, hint %s", err, none.Hint())
	}
}

// The path of a socket has at most 107 bytes, that of a folder 4095.
func TestLongFolders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 60))
	p := placeIn(dir)
	s := open(t, Options{Place: p, Job: Job{Size: 1}})
	f, err := p.Find(t.Context(), s.ID())
	check.That(t, err == nil && f.Client != nil, "%+v, %v", f, err)
}

func TestFoldersThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	p := placeIn(dir)
	must.OK(t, os.MkdirAll(filepath.Join(dir, "run"), 0o700))
	must.OK(t, os.WriteFile(p.Runtime, nil, 0o600))
	s := open(t, Options{Place: p})
	found, _ := filepath.Glob(filepath.Join(p.State, s.ID()+"@here.sock"))
	check.That(t, len(found) == 1, "the state folder was not used")
	for _, none := range []Place{{}, {Runtime: p.Runtime}} {
		check.That(t, New(Options{Place: none}).Listen() != nil, "%+v can be used", none)
	}
}

func TestFoldersAndSocketsAreTheUsersAlone(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	p := placeIn(t.TempDir())
	must.OK(t, os.MkdirAll(p.Runtime, 0o777))
	s := open(t, Options{Place: p, Job: Job{Detached: true}})
	s.Finish(0, "")
	seen := 0
	err := filepath.Walk(filepath.Dir(p.State), func(path string, info os.FileInfo, err error) error {
		if err == nil && path != filepath.Dir(p.State) {
			seen++
			check.That(t, info.Mode().Perm()&0o77 == 0, "%s is %v", path, info.Mode())
		}
		return err
	})
	check.That(t, err == nil && seen >= 4, "%d files, %v", seen, err)
	s = open(t, Options{Place: p})
	info, err := os.Stat(p.Runtime)
	check.That(t, err == nil && info.Mode().Perm() == 0o700, "%v, %v", info, err)
	info, err = os.Stat(filepath.Join(p.Runtime, s.ID()+"@here.sock"))
	check.That(t, err == nil && info.Mode().Perm() == 0o600, "%v, %v", info, err)
}

// A socket that nobody listens on is removed by whoever lists jobs, but only on the machine that
// made it.
func TestDeadSockets(t *testing.T) {
	p := placeIn(t.TempDir())
	must.OK(t, os.MkdirAll(p.Runtime, 0o700))
	for _, name := range []string{"a2b3@here.sock", "a2b3@there.sock"} {
		l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(p.Runtime, name), Net: "unix"}))(t)
		l.SetUnlinkOnClose(false)
		l.Close()
	}
	found, err := p.List(t.Context(), true)
	check.That(t, len(found) == 0 && err == nil, "%+v, %v", found, err)
	left, _ := filepath.Glob(filepath.Join(p.Runtime, "*"))
	check.That(t, len(left) == 1 && filepath.Base(left[0]) == "a2b3@there.sock", "left %q", left)
}

func TestPagesOfTheWebAreRefused(t *testing.T) {
	p := placeIn(t.TempDir())
	s := open(t, Options{Place: p})
	f := must.Get(p.Find(t.Context(), s.ID()))(t)
	r, _ := http.NewRequest(http.MethodPost, "http://gorun/v1/stop", strings.NewReader("{}"))
	r.Header.Set("Origin", "https://example.com")
	answer := must.Get(f.Client.http.Do(r))(t)
	defer answer.Body.Close()
	check.That(t, answer.StatusCode == http.StatusForbidden, "%v", answer.Status)
}

func TestHistoryIsBounded(t *testing.T) {
	p := placeIn(t.TempDir())
	code := 0
	program := []string{strings.Repeat("x", 1<<20)}
	for i := range 9 {
		must.OK(t, p.remember(Job{
			ID:      fmt.Sprint(i),
			Ended:   time.Now(),
			Code:    &code,
			Program: program,
		}))
	}
	dir := must.Get(p.state())(t)
	defer dir.Close()
	jobs, err := p.past(dir, time.Now())
	check.That(t, err == nil && len(jobs) >= 1 && len(jobs) <= 4 && jobs[len(jobs)-1].ID == "8",
		"%d jobs, %v", len(jobs), err)
	info, err := os.Stat(filepath.Join(p.State, historyName))
	check.That(t, err == nil && info.Size() <= historySize, "%v, %v", info.Size(), err)
	jobs, err = p.past(dir, time.Now().Add(keepTime))
	check.That(t, len(jobs) == 0 && err == nil, "%d jobs after %v, %v", len(jobs), keepTime, err)
}

// Where others can change the folder above that of jobs, they can put another one of this user in
// its place. What gorun has not made there stays, whatever its name and age.
func TestOnlyFoldersOfJobsAreRemoved(t *testing.T) {
	p := placeIn(t.TempDir())
	long := time.Now().Add(-2 * keepTime)
	for id, description := range map[string]string{"r2d2": "{}", "c3p4": `{"id": "c3p4"}`} {
		dir := filepath.Join(p.State, id)
		must.OK(t, os.MkdirAll(dir, 0o700))
		file := filepath.Join(dir, jobFile)
		must.OK(t, os.WriteFile(file, []byte(description), 0o600))
		must.OK(t, os.Chtimes(file, long, long))
		must.OK(t, os.Chtimes(dir, long, long))
	}
	must.Get(p.List(t.Context(), true))(t)
	_, err := os.Stat(filepath.Join(p.State, "r2d2"))
	check.OK(t, err, "what is no folder of a job's")
	_, err = os.Stat(filepath.Join(p.State, "c3p4"))
	check.Error(nil, err).Is(t, fs.ErrNotExist)
}

func TestOldLogsAreRemoved(t *testing.T) {
	p := placeIn(t.TempDir())
	s := open(t, Options{Place: p, Job: Job{Detached: true}, Failed: func(error) {}})
	s.Add(0, 1, time.Now(), []byte("x"))
	dir := s.Job().Log
	state := must.Get(p.state())(t)
	defer state.Close()
	prune(state, p.detached(state), []string{s.ID()}, time.Now().Add(2*keepTime))
	_, err := os.Stat(dir)
	must.OK(t, err, "the log of a running job was removed")
	prune(state, p.detached(state), nil, time.Now())
	_, err = os.Stat(dir)
	must.OK(t, err, "a fresh log was removed")
	if err := s.Close(); err != nil { // so that it no longer writes the log
		t.Fatal(err)
	}
	prune(state, p.detached(state), nil, time.Now().Add(2*keepTime))
	check.Error(os.Stat(dir)).Is(t, os.ErrNotExist, "an old log is left")
}

// Another user owns the folder above, and puts another one in the place of the jobs' when it has
// been checked. Nothing there is read, written or removed.
func TestFoldersThatTakeThePlaceAreLeftAlone(t *testing.T) {
	lab.NeedRoot(t)
	p := placeIn(t.TempDir())
	s := open(t, Options{Place: p, Job: Job{Detached: true}, Failed: func(error) {}})
	state := must.Get(p.state())(t)
	defer state.Close()
	theirs := p.State + "-theirs"
	text := must.Get(os.ReadFile(filepath.Join(p.State, s.ID(), jobFile)))(t)
	kept := filepath.Join(theirs, "i386", jobFile)
	must.OK(t, os.MkdirAll(filepath.Dir(kept), 0o755))
	must.OK(t, os.WriteFile(kept, bytes.ReplaceAll(text, []byte(s.ID()), []byte("i386")), 0o644))
	must.OK(t, os.Rename(p.State, p.State+"-aside"))
	must.OK(t, os.Symlink(theirs, p.State))
	must.OK(t, os.Mkdir(filepath.Join(theirs, s.ID()), 0o777))
	s.Add(0, 1, time.Now(), []byte("x"))
	must.OK(t, s.Close())
	written, err := filepath.Glob(filepath.Join(filepath.Dir(p.State), "*", s.ID(), "*"))
	must.That(t, err == nil && len(written) == 2 && strings.HasPrefix(written[0], p.State+"-aside/") &&
		strings.HasPrefix(written[1], p.State+"-aside/"), "written %q, %v", written, err)
	jobs := p.detached(state)
	check.That(t, len(jobs) == 1 && jobs[0].ID == s.ID(), "listed %+v", jobs)
	prune(state, p.detached(state), nil, time.Now().Add(2*keepTime))
	_, err = os.Stat(kept)
	check.OK(t, err, "removed")
	log := filepath.Join(theirs, "i386")
	must.OK(t, errors.Join(os.Chmod(log, 0o700), os.Chown(log, 65533, 65533)))
	check.Error(ReadLog(log, 0, func(Record) error { return nil })).Any(t, "the log of another user was read")
}

// A folder of another user's, or what that user has put in its place, is no folder of sockets.
func TestFoldersOfOthersHaveNoJobs(t *testing.T) {
	lab.NeedRoot(t)
	for name, made := range map[string]func(path string) error{
		"folder": func(path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.WriteFile(path+"/x2y3@here.sock", nil, 0o600),
				os.Chown(path, 65533, 65533))
		},
		"file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"link": func(path string) error {
			return errors.Join(os.Symlink(t.TempDir(), path), os.Lchown(path, 65533, 65533))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := placeIn(t.TempDir())
			must.OK(t, os.MkdirAll(filepath.Dir(p.Runtime), 0o755))
			must.OK(t, made(p.Runtime))
			s := open(t, Options{Place: p, Job: Job{Name: "train"}})
			found, err := p.List(t.Context(), true)
			must.That(t, err == nil && len(found) == 1 && found[0].ID == s.ID(), "%+v, %v", found, err)
			keepers, err := p.Keepers()
			check.That(t, err == nil && len(keepers) == 0, "%+v, %v", keepers, err)
		})
	}
}

func TestKilledDetachedJobIsListed(t *testing.T) {
	p := placeIn(t.TempDir())
	s := open(t, Options{Place: p, Job: Job{Detached: true}})
	if err := s.Close(); err != nil { // without Finish
		t.Fatal(err)
	}
	f, err := p.Find(t.Context(), s.ID())
	check.That(t, err == nil && f.State == Unknown && f.Cause != "" && f.Log != "", "%+v, %v", f, err)
}

func TestOutputReachesReadersAndLog(t *testing.T) {
	p := placeIn(t.TempDir())
	s := open(t, Options{Place: p, Job: Job{Detached: true, Size: 4}})
	f := must.Get(p.Find(t.Context(), s.ID()))(t)
	body := must.Get(f.Client.Output(t.Context(), -1, true))(t)
	defer body.Close()
	var want bytes.Buffer
	for i := range 1000 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		s.Add(i%4, 1, time.Now(), []byte(line))
	}
	s.Finish(0, "")
	stream := must.Get(io.ReadAll(body))(t)
	var got bytes.Buffer
	for _, r := range records(t, stream) {
		got.Write(r.Data)
	}
	check.OK(t, s.Close())
	check.That(t, got.String() == want.String(), "read %d bytes, want %d", got.Len(), want.Len())
	var kept bytes.Buffer
	if _, err := ReadLog(s.Job().Log, 0, func(r Record) error {
		kept.Write(r.Data)
		return nil
	}); err != nil || kept.String() != want.String() {
		t.Errorf("the log has %d bytes, want %d, %v", kept.Len(), want.Len(), err)
	}
}

// An empty word, as of a record that is still written or of a shell's unset variable, names no job.
func TestNothingNamesNoJob(t *testing.T) {
	p := placeIn(t.TempDir())
	open(t, Options{Place: p})
	_, err := p.Find(t.Context(), "")
	check.That(t, errors.As(err, new(*NoJobError)), "the job that has no name is found: %v", err)
}

// A reader of what is present comes to its end also where it is slower than a rank that prints.
func TestOutputThatIsPresentEnds(t *testing.T) {
	p := placeIn(t.TempDir())
	s := open(t, Options{Place: p, Job: Job{Size: 1}})
	data := make([]byte, maxRecord)
	const before = 20
	for range before {
		s.Add(0, 1, time.Now(), data)
	}
	f := must.Get(p.Find(t.Context(), s.ID()))(t)
	body := must.Get(f.Client.Output(t.Context(), -1, false))(t)
	defer body.Close()
	read := 0
	for records := NewRecordReader(body); ; read++ {
		if _, err := records.Next(); err != nil {
			check.Error(err).Is(t, io.EOF)
			break
		}
		must.That(t, read < 10*before, "what is present has no end")
		for range 2 {
			s.Add(0, 1, time.Now(), data)
		}
	}
	check.That(t, read > 0, "nothing is present")
}
