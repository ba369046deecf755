package output

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gorun/gorun/internal/files/trust"
)

// Results are the files of --result-dir: DIR/rank.N/result, with N padded as in [Files]. What a
// process writes is saved under the process's number until the job ends, since its rank may change
// before.
type Results struct {
	dir   string
	limit int64 // bytes of one result

	mu    sync.Mutex
	parts map[int]*part // key: number of the process
}

// part is what a process has written. Its file is open during a write only: an elastic job, or one
// that spawns ranks, may have more processes than gorun can have descriptors.
type part struct {
	made  bool // the file exists
	bytes int64
	err   error // why the result is lost, or nil
}

// OpenResults begins to save results below dir, of at most limit bytes each; nil without a dir. The
// error is an *OutputError.
func OpenResults(dir string, limit int64) (*Results, error) {
	if dir == "" {
		return nil, nil
	}
	dir = filepath.Clean(dir)
	if err := trust.MakeDir(dir); err != nil {
		return nil, &OutputError{fmt.Errorf("make the result directory: %w", err), "--result-dir"}
	}
	return &Results{dir: dir, limit: limit, parts: map[int]*part{}}, nil
}

// printer returns a printer that shows nothing and saves its streams as results.
func (r *Results) printer() *Printer {
	hidden := Format{Show: func(int, int) bool { return false }}
	return NewPrinter(Printing{Format: hidden, W: io.Discard, results: r})
}

// write appends data to the result of a process. The job goes on when that fails.
func (r *Results) write(process int, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.parts[process]
	if p == nil {
		p = &part{}
		r.parts[process] = p
	}
	p.bytes += int64(len(data))
	path := r.unnamed(process)
	switch {
	case p.err != nil:
	case p.bytes > r.limit:
		p.err = fmt.Errorf("it has more than %d bytes; raise --result-limit", r.limit)
		if p.made {
			p.err = cmp.Or(trust.WriteFile(path, nil), p.err) // its bytes are of no use
		}
	case !p.made:
		p.err = p.add(trust.Create, path, data)
	default:
		p.err = p.add(trust.Extend, path, data)
	}
}

// add writes data to the file that open opens.
func (p *part) add(open func(string) (*os.File, error), path string, data []byte) error {
	file, err := open(path)
	if err != nil {
		return err
	}
	p.made = true
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// unnamed returns the path of a process's result until the job ends.
func (r *Results) unnamed(process int) string {
	return filepath.Join(r.dir, fmt.Sprintf(".process.%d", process))
}

// Close names the results by rank: processes[N] is the number of the process that is rank N at the
// end, or -1 if there is none. The file of a rank that wrote nothing is empty. A lost result is an
// error, and its folder has no file. Results of other processes are removed.
func (r *Results) Close(processes []int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for rank, process := range processes {
		if err := r.name(process, filepath.Join(r.dir, rankFolder(rank, len(processes)))); err != nil {
			errs = append(errs, fmt.Errorf("the result of rank %d is lost: %w", rank, err))
			if p := r.parts[process]; p != nil {
				p.err = err
			}
		}
	}
	for process, p := range r.parts {
		if p.made && (p.err != nil || !slices.Contains(processes, process)) {
			errs = append(errs, trust.Remove(r.unnamed(process)))
		}
	}
	return errors.Join(errs...)
}

// name gives the result of a process its place in a folder. An older one there is replaced.
func (r *Results) name(process int, folder string) error {
	if err := trust.MakeDir(folder); err != nil {
		return err
	}
	path := filepath.Join(folder, "result")
	p := r.parts[process]
	switch {
	case p == nil:
		return trust.WriteFile(path, nil)
	case p.err != nil:
		if err := trust.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(p.err, err)
		}
		return p.err
	}
	return trust.Rename(r.unnamed(process), path)
}
