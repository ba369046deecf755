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
}

func newStager(exe Executable, trace func(string, ...any)) *stager {
	return &stager{exe: exe, trace: trace, staged: make(chan struct{})}
}

// agent returns a session with an agent of our own build on conn.
func (s *stager) agent(ctx context.Context, conn Host) (*session, error) {
	if _, local := conn.(Local); local {
		return openSession(ctx, conn, "/proc/self/exe", s.exe.Build)
	}
	// The launcher's own path: file systems are often shared.
	opened, err := openSession(ctx, conn, s.exe.Path, s.exe.Build)
	if err == nil || !isNoAgent(err) || ctx.Err() != nil {
		return opened, err
	}
	hash, err := s.exe.Hash()
	if err != nil {
		return nil, err
	}
	cached := path.Join(".cache/gorun", hash[:16], "gorun")
	opened, err = openSession(ctx, conn, cached, s.exe.Build)
	if err == nil || !isNoAgent(err) || ctx.Err() != nil {
		return opened, err
	}
	return s.upload(ctx, conn, cached)
}

// upload puts the executable at cached and starts it there.
func (s *stager) upload(ctx context.Context, conn Host, cached string) (*session, error) {
	leads := false
	s.first.Do(func() { leads = true })
	if leads {
		defer close(s.staged)
	} else {
		select {
		case <-s.staged:
			if opened, err := openSession(ctx, conn, cached, s.exe.Build); err == nil {
				return opened, nil
			}
		case <-time.After(leaderTime):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	// Not by its path: a new build may stand there by now.
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("read gorun itself: %w", err)
	}
	defer file.Close()
	if err := conn.Put(ctx, cached, 0o700, file); err != nil {
		return nil, fmt.Errorf("upload gorun to ~/%s: %w", filepath.ToSlash(cached), err)
	}
	s.trace("uploaded gorun to ~/%s", cached)
	opened, err := openSession(ctx, conn, cached, s.exe.Build)
	if err != nil {
		return nil, fmt.Errorf("after the upload: %w", err)
	}
	return opened, nil
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
