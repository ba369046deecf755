package launcher

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"syscall"
	"time"
)

// cacheDir is where gorun is on hosts, below the home directory; startScript knows other places.
const cacheDir = ".cache/gorun"

// Executable is the running gorun: what is staged on hosts.
type Executable struct {
	Path  string                 // absolute
	Build string                 // what an agent of the same build says in its hello
	Hash  func() (string, error) // SHA-256 in hex, asked for only when the cache is needed
}

// stager starts what gorun is on hosts, uploading the executable where it is missing.
type stager struct {
	exe     Executable
	hello   time.Duration // until what was started answers
	uploads *uploads
	known   sync.Map // from Host to the path where gorun is there
}

// newStager gives login shells that are slow to start a part of the time that the user allows.
func newStager(opts Options) *stager {
	return &stager{exe: opts.Exe, hello: max(helloTime, opts.StartTimeout/6), uploads: newUploads(opts.Trace)}
}

// agent returns a session with an agent of our own build on conn.
func (s *stager) agent(ctx context.Context, conn Host) (opened *session, err error) {
	err = s.start(ctx, conn, func(path string) error {
		opened, err = openSession(ctx, conn, path, s.exe.Build, s.hello)
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
	cached := path.Join(cacheDir, hash[:16], "gorun")
	s.known.Store(conn, cached)
	if err := open(cached); !another(err) {
		return err
	}
	if err := s.uploads.upload(ctx, conn, cached); err != nil {
		return err
	}
	if err := open(cached); err != nil {
		return fmt.Errorf("after the upload: %w", err)
	}
	return nil
}

// isNoAgent reports that the command ran and was not our agent: another path
// may be. One that somebody has killed may well have been.
func isNoAgent(err error) bool {
	var no *noAgentError
	if !errors.As(err, &no) {
		return false
	}
	const killed = 128 + int(syscall.SIGKILL)
	code, ended := exitCode(no.err)
	return ended && code != killed || errors.Is(no.err, errOtherBuild)
}
