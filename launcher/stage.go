package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"
)

// leaderTime is how long hosts wait for the first upload before they stop
// hoping that they share its file system.
const leaderTime = 15 * time.Second

// Executable is the running gorun: what is staged on hosts.
type Executable struct {
	Path  string                 // absolute
	Build string                 // what an agent of the same build says in its hello
	Hash  func() (string, error) // SHA-256 in hex, asked for only when the cache is needed
}

// stager starts agents, uploading the executable where it is missing. The
// first host that needs an upload goes ahead; the others then look again, since
// many clusters share one home directory, and upload only if it is not there yet.
type stager struct {
	exe    Executable
	trace  func(format string, args ...any)
	first  sync.Once
	staged chan struct{} // closed when the first upload is over
	known  sync.Map      // from Host to the path where gorun is there
}

func newStager(exe Executable, trace func(string, ...any)) *stager {
	return &stager{exe: exe, trace: trace, staged: make(chan struct{})}
}

// agent returns a session with an agent of our own build on conn.
func (s *stager) agent(ctx context.Context, conn Host) (opened *session, err error) {
	err = s.start(ctx, conn, func(path string) error {
		opened, err = openSession(ctx, conn, path, s.exe.Build)
		return err
	})
	return opened, err
}

// start opens what gorun is on conn, trying the paths where it may be and uploading it where it is
// missing. open's error tells by isNoAgent that another path may do better.
func (s *stager) start(ctx context.Context, conn Host, open func(path string) error) error {
	another := func(err error) bool { return err != nil && isNoAgent(err) && ctx.Err() == nil }
	if _, local := conn.(Local); local {
		return open("/proc/self/exe")
	}
	if path, known := s.known.Load(conn); known {
		return open(path.(string))
	}
	// The launcher's own path: file systems are often shared.
	err := open(s.exe.Path)
	if !another(err) {
		s.known.Store(conn, s.exe.Path)
		return err
	}
	hash, err := s.exe.Hash()
	if err != nil {
		return err
	}
	cached := path.Join(".cache/gorun", hash[:16], "gorun")
	s.known.Store(conn, cached)
	if err := open(cached); !another(err) {
		return err
	}
	return s.upload(ctx, conn, cached, open)
}

// upload puts the executable at cached and starts it there.
func (s *stager) upload(ctx context.Context, conn Host, cached string, open func(path string) error) error {
	leads := false
	s.first.Do(func() { leads = true })
	if leads {
		defer close(s.staged)
	} else {
		select {
		case <-s.staged:
			if err := open(cached); err == nil {
				return nil
			}
		case <-time.After(leaderTime):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	// Not by its path: a new build may stand there by now.
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("read gorun itself: %w", err)
	}
	defer file.Close()
	if err := conn.Put(ctx, cached, 0o700, file); err != nil {
		return fmt.Errorf("upload gorun to ~/%s: %w", filepath.ToSlash(cached), err)
	}
	s.trace("uploaded gorun to ~/%s", cached)
	if err := open(cached); err != nil {
		return fmt.Errorf("after the upload: %w", err)
	}
	return nil
}

// isNoAgent reports that the command ran and was not our agent: another path
// may be.
func isNoAgent(err error) bool {
	var no *noAgentError
	if !errors.As(err, &no) {
		return false
	}
	var status interface{ ExitCode() int }
	return errors.Is(no.err, errOtherBuild) || errors.As(no.err, &status)
}
