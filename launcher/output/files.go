package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/plan"
)

// Files are the files of --output-filename: DIR/rank.N/stdout and stderr,
// N padded with zeros to the width of the highest rank, as horovodrun names
// them; or files of other names. They hold the ranks' bytes unchanged.
type Files struct {
	dir  string                    // "": none
	as   func(rank, fd int) string // path of a stream outside dir, or ""; nil: none has one
	plan plan.Plan
	note func(string) // reports to the user, once per failed file

	mu    sync.Mutex          // stdout's and stderr's printers share this
	files map[string]*os.File // key: path; nil: it could not be opened
	own   []string            // open files below dir, the one that was opened first in front
	shut  map[string]bool     // files below dir that were closed to open others
	saved map[uint32]int64    // bytes, by stream
	lost  map[uint32]int      // bytes that could not be written, by stream
}

// OpenFiles begins to save output below dir, and in the files that as names. It writes an index
// unless the plan has no ranks. The error is an *OutputError.
func OpenFiles(dir string, as func(rank, fd int) string, plan plan.Plan, note func(string)) (*Files, error) {
	if dir != "" {
		dir = filepath.Clean(dir)
		if err := trust.MakeDir(dir); err != nil {
			return nil, &OutputError{fmt.Errorf("make the output directory: %w", err), "--output-filename"}
		}
	}
	f := &Files{
		dir:   dir,
		as:    as,
		plan:  plan,
		note:  note,
		files: map[string]*os.File{},
		shut:  map[string]bool{},
		saved: map[uint32]int64{},
		lost:  map[uint32]int{},
	}
	if err := f.check(); err != nil {
		return nil, &OutputError{fmt.Errorf("save the ranks' output: %w", err), "--output-filename"}
	}
	if err := f.writeIndex(nil); err != nil {
		return nil, &OutputError{err, "--output-filename"}
	}
	return f, nil
}

// check returns an error if another user has made, in the place of a file that will be written,
// what trust.Create refuses. The ranks of an elastic job are not known yet.
func (f *Files) check() error {
	checked := map[string]bool{} // ranks may share files
	for rank := range f.plan.Size {
		for fd := 1; fd <= 2; fd++ {
			path, own := f.name(rank, fd)
			if own {
				if f.dir == "" {
					continue
				}
				path = filepath.Join(f.dir, path)
				folder := filepath.Dir(path)
				if _, err := os.Lstat(folder); errors.Is(err, fs.ErrNotExist) {
					continue // the usual case, cheaper than a check
				}
				var foreign *trust.Error
				if err := trust.MakeDir(folder); errors.As(err, &foreign) {
					return err
				}
			}
			if checked[path] {
				continue
			}
			checked[path] = true
			if err := trust.CheckOutput(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// OutputError reports that the ranks' output cannot be saved. Nothing was started.
type OutputError struct {
	Err  error
	flag string // flag that named the folder
}

func (e *OutputError) Error() string { return e.Err.Error() }
func (e *OutputError) Unwrap() error { return e.Err }

// Hint returns what to change.
func (e *OutputError) Hint() string {
	if foreign, is := errors.AsType[*trust.Error](e.Err); is {
		return foreign.Hint()
	}
	return e.flag + " names a folder, new or old, in which you may write files"
}

// path returns where a stream is saved, or "".
func (f *Files) path(rank, fd int) string {
	switch name, own := f.name(rank, fd); {
	case !own:
		return name
	case f.dir != "":
		return filepath.Join(f.dir, name)
	}
	return ""
}

// name returns the path of a stream's file: below dir if own is true.
func (f *Files) name(rank, fd int) (path string, own bool) {
	if f.as != nil {
		if path = f.as(rank, fd); path != "" {
			return path, false
		}
	}
	return filepath.Join(rankFolder(rank, f.plan.Size), [...]string{1: "stdout", 2: "stderr"}[fd]), true
}

// rankFolder returns the folder for the files of a rank in a job of size ranks.
func rankFolder(rank, size int) string {
	return fmt.Sprintf("rank.%0*d", len(fmt.Sprint(size-1)), rank)
}

// open creates a file. Its directory may be another user's unless it is below dir.
func (f *Files) open(path string) (*os.File, error) {
	dir := filepath.Dir(path)
	_, err := os.Lstat(dir)
	if missing := errors.Is(err, fs.ErrNotExist); missing || f.dir != "" && strings.HasPrefix(path, f.dir+"/") {
		if err := trust.MakeDir(dir); err != nil {
			return nil, err
		}
	}
	if f.shut[path] {
		return trust.Extend(path)
	}
	return trust.Create(path)
}

// spareFiles is the number of files of ranks that were spawned, ended or not, that may be open. All
// ranks that the job starts have theirs open.
const spareFiles = 1 << 10

// limit closes the files below dir that were opened first, beyond those of the job's ranks and some
// more: a host may spawn more ranks during a job than gorun can have descriptors.
func (f *Files) limit() error {
	if len(f.own) <= 2*f.plan.Size+spareFiles {
		return nil
	}
	path := f.own[0]
	file := f.files[path]
	f.own = f.own[1:]
	f.shut[path] = true
	delete(f.files, path)
	return file.Close()
}

// write appends data. A file that fails is reported once and the job goes on.
func (f *Files) write(rank, fd int, data []byte) {
	path := f.path(rank, fd)
	if path == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := wire.OutputStream(rank, fd)
	file, known := f.files[path]
	var err error
	if !known {
		file, err = f.open(path)
		f.files[path] = file
	}
	if !known && err == nil && f.dir != "" && strings.HasPrefix(path, f.dir+"/") {
		f.own = append(f.own, path)
		if late := f.limit(); late != nil {
			f.note(fmt.Sprintf("some output of a rank is not saved: %v", late))
		}
	}
	if file != nil && f.lost[key] == 0 {
		_, err = file.Write(data)
	}
	if err != nil {
		f.note(fmt.Sprintf("the output of rank %d is not saved any more: %v", rank, err))
	}
	if err != nil || file == nil || f.lost[key] > 0 {
		f.lost[key] += len(data)
		return
	}
	f.saved[key] += int64(len(data))
}

// Close closes the files, completes the index with the ends of the ranks, and reports whether
// everything was written.
func (f *Files) Close(r *Ended) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, file := range f.files {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	for key, lost := range f.lost {
		rank, _ := wire.RankFD(key)
		errs = append(errs, fmt.Errorf("%d bytes of rank %d's output were not saved", lost, rank))
	}
	return errors.Join(append(errs, f.writeIndex(r))...)
}

// Log returns the file that best explains a rank's failure, or "".
func (f *Files) Log(rank int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fd := range []int{2, 1} {
		if path := f.path(rank, fd); f.saved[wire.OutputStream(rank, fd)] > 0 && path != os.DevNull {
			return path
		}
	}
	return ""
}
