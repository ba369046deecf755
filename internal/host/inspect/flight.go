package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/host/process"
	"github.com/gorun/gorun/internal/pickle"
	"github.com/gorun/gorun/internal/sight/flight"
)

// flightLimit bounds the wait for a dump of PyTorch's flight recorder: its watchdog looks at the
// pipe once a second by default, and writes the stacks of all calls.
const flightLimit = 2500 * time.Millisecond

// maxDump bounds a dump: 2,000 calls with their stacks have 2 MB.
const maxDump = 16 << 20

// recording is the flight recorder of a process that has been asked for a dump.
type recording struct {
	of     *process.Process
	path   string // path of the dump
	before unix.Stat_t
	asked  time.Time
}

// askFlight asks the process's flight recorder for a dump. nil without an error: it has none that
// listens on a pipe.
//
// The pipe is opened by the descriptor that the process reads from, so no other process gets the
// request.
func (s *subject) askFlight() (*recording, error) {
	prefix := s.env("TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
	if prefix == "" {
		return nil, nil
	}
	fd, number := s.pipe(filepath.Base(prefix))
	if fd == "" {
		return nil, nil
	}
	pipe, err := s.own.Pipe(fd)
	if err != nil {
		return nil, err
	}
	defer pipe.Close()
	r := &recording{of: s.own, path: s.dumpPrefix() + number}
	if file, err := r.open(&r.before); err == nil {
		_ = file.Close()
	}
	r.asked = time.Now()
	_, err = pipe.Write([]byte{'1'})
	return r, err
}

// env returns a variable of the environment with which the process's program began.
func (s *subject) env(name string) string {
	value, _ := s.environment.Lookup(name)
	return value
}

// pipe finds the descriptor on which the flight recorder listens, and the number of its rank:
// PREFIX3.pipe.
func (s *subject) pipe(prefix string) (fd, number string) {
	for _, f := range s.own.Names("fd") {
		number, named := strings.CutPrefix(filepath.Base(s.own.Link("fd/"+f)), prefix)
		number, is := strings.CutSuffix(number, ".pipe")
		if n, err := strconv.Atoi(number); named && is && err == nil && n >= 0 {
			return f, strconv.Itoa(n)
		}
	}
	return "", ""
}

// dumpPrefix is what PyTorch puts before the rank in the name of a dump.
func (s *subject) dumpPrefix() string {
	return cmp.Or(s.env("TORCH_FR_DUMP_TEMP_FILE"), s.env("TORCH_NCCL_DEBUG_INFO_TEMP_FILE"),
		cmp.Or(s.env("HOME"), "/tmp")+"/.cache/torch/comm_lib_trace_rank_")
}

// open opens the dump as the process would, and refuses what is not a file of its user.
func (r *recording) open(stat *unix.Stat_t) (*os.File, error) {
	file, err := openFile(r.of, r.path)
	if err != nil {
		return nil, err
	}
	if err := unix.Fstat(int(file.Fd()), stat); err != nil || stat.Uid != uint32(os.Geteuid()) {
		_ = file.Close()
		return nil, cmp.Or(err, fmt.Errorf("%s is not a file of its user", r.path))
	}
	return file, nil
}

// read waits for the dump and returns it.
func (r *recording) read(ctx context.Context) (*flight.Dump, error) {
	ctx, cancel := context.WithDeadline(ctx, r.asked.Add(flightLimit))
	defer cancel()
	for {
		dump, err := r.try()
		if err == nil {
			return dump, nil
		}
		if !errors.Is(err, errOld) && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, pickle.ErrIncomplete) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w, after %v", err, flightLimit)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// errOld is why a dump cannot be used.
var errOld = errors.New("the last dump is older than the request")

// try returns the dump if it is new and complete.
func (r *recording) try() (*flight.Dump, error) {
	var now unix.Stat_t
	file, err := r.open(&now)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if now.Ino == r.before.Ino && now.Mtim == r.before.Mtim && now.Size == r.before.Size {
		return nil, errOld
	}
	if now.Size > maxDump {
		return nil, fmt.Errorf("%s has %d bytes", r.path, now.Size)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxDump))
	if err != nil {
		return nil, err
	}
	return flight.Parse(data, time.Now())
}

// openFile opens a regular file by the path that it has for a process, unless another user's
// process shows it (FUSE): that one may let a reader wait for ever.
func openFile(p *process.Process, path string) (*os.File, error) {
	return p.File(path, func(found *os.File) error {
		mounts, err := p.Text("mountinfo")
		if err != nil {
			return err
		}
		return trust.FileSystemOf(found, mounts)
	})
}
