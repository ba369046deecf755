package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/prose"
)

const (
	keepTime = 7 * 24 * time.Hour // time for which an ended job and its log are kept
	// historySize is the size in bytes at which the history is shortened, to at most half of it.
	historySize = 4 << 20
	historyName = "history.jsonl"
)

// remember appends an ended job to the history, a file of a JSON object per line.
func (p Place) remember(job Job) error {
	if p.State == "" {
		return errNoFolder
	}
	line, err := json.Marshal(job)
	if err != nil {
		return err
	}
	dir, err := trust.OpenDir(p.State, true)
	if err != nil {
		return err
	}
	defer dir.Close()
	file, err := lock(dir, historyName, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err = file.Write(append(prose.PlainJSON(line), '\n')); err != nil {
		return err
	}
	if info, err := file.Stat(); err != nil || info.Size() < historySize {
		return err
	}
	return shorten(file)
}

// lock opens a file for reading and appending, and locks it.
func lock(dir *os.File, name string, how int) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT|unix.O_NOFOLLOW|
		unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	file := os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name))
	// A stopped process may hold the lock. Continuing without it may lose two lines of the history,
	// or give two jobs one name, which is better than waiting.
	for end := time.Now().Add(time.Second); unix.Flock(fd, how|unix.LOCK_NB) == unix.EWOULDBLOCK &&
		time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	return file, nil
}

// shorten removes the oldest jobs from the history.
func shorten(file *os.File) error {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 2*historySize))
	if err != nil {
		return err
	}
	if over := len(text) - historySize/2; over > 0 {
		text = text[over:]
		text = text[bytes.IndexByte(text, '\n')+1:]
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err = file.Write(text)
	return err
}

// state opens the folder of ended and detached jobs; nil if there is none. All that is read or
// removed there is found by way of it: its path may lead to a folder of another user later.
func (p Place) state() (*os.File, error) {
	if p.State == "" {
		return nil, nil
	}
	dir, err := trust.OpenDir(p.State, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return dir, err
}

// past returns the jobs that ended within keepTime, the oldest first.
func (p Place) past(dir *os.File, now time.Time) (jobs []Job, err error) {
	file, err := lock(dir, historyName, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 2*historySize))
	for line := range bytes.Lines(text) {
		var job Job
		if json.Unmarshal(line, &job) == nil && now.Sub(job.Ended) < keepTime {
			jobs = append(jobs, job)
		}
	}
	return jobs, err
}

// jobFile is the name of a detached job's description in its folder.
const jobFile = "job.json"

// writeJob writes the description of a detached job to its folder, which is found even if its gorun
// has ended without a trace.
func writeJob(dir *os.File, job Job) error {
	text, err := json.Marshal(job)
	if err == nil {
		err = os.WriteFile(entry(dir, jobFile), append(prose.PlainJSON(text), '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("describe the job in %s: %w", job.Log, err)
	}
	return nil
}

// detached returns the jobs that have folders.
func (p Place) detached(dir *os.File) (jobs []Job) {
	names, _ := filepath.Glob(entry(dir, "*/"+jobFile))
	for _, name := range names {
		var job Job
		id := filepath.Base(filepath.Dir(name))
		if text, err := os.ReadFile(name); err == nil && json.Unmarshal(text, &job) == nil && job.ID == id {
			job.Log = filepath.Join(p.State, id)
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// prune removes the folders of detached jobs that ended long ago. running are those that have not
// ended. A folder without the description of its job is not gorun's: another user may have put
// another folder of this one in the place of dir.
func prune(dir *os.File, detached []Job, running []string, now time.Time) {
	for _, job := range detached {
		path := entry(dir, job.ID)
		files, err := os.ReadDir(path)
		if !isID(job.ID) || err != nil || slices.Contains(running, job.ID) {
			continue
		}
		var last time.Time
		for _, entry := range files {
			if info, err := entry.Info(); err == nil && info.ModTime().After(last) {
				last = info.ModTime()
			}
		}
		if !last.IsZero() && now.Sub(last) > keepTime {
			_ = os.RemoveAll(path) // another process may do so as well
		}
	}
}
