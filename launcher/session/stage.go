package session

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/wire"
)

// cacheDir is gorun's folder on hosts, relative to the home directory; start.sh has the alternatives.
const cacheDir = ".cache/gorun"

// Executable is the running gorun, which is staged on hosts.
type Executable struct {
	Path  string                 // absolute
	Build string                 // the build id that an agent of the same build sends
	Hash  func() (string, error) // SHA-256 in hex, asked for only when the cache is needed
}

// Stager starts gorun on hosts, and uploads it where it is missing.
type Stager struct {
	Hosts   int // of the job; sets the time between heartbeats
	exe     Executable
	hello   time.Duration // timeout for a started command to answer
	uploads *uploads
	known   sync.Map // from Host to the path where gorun is there
}

// NewStager returns a stager. The timeout for an agent's answer grows with startTimeout, for slow login shells.
func NewStager(exe Executable, startTimeout time.Duration, trace func(format string, args ...any)) *Stager {
	return &Stager{exe: exe, hello: max(helloTime, startTimeout/6), uploads: newUploads(trace)}
}

// Agent returns a session with an agent of this build on conn. It tries each path where gorun may be, and uploads gorun if none has it.
func (s *Stager) Agent(ctx context.Context, conn Host) (*Session, error) {
	open := func(path string) (*Session, error) {
		return Open(ctx, conn, path, s.exe.Build, s.hello, beatFor(s.Hosts))
	}
	another := func(err error) bool { return err != nil && isNoAgent(err) && ctx.Err() == nil }
	if _, local := conn.(Local); local {
		return open("/proc/self/exe")
	}
	if r, is := conn.(Resident); is && r.AgentBuild() == s.exe.Build {
		if opened, err := openBy(ctx, conn, "the resident agent", r.RunAgent, s.exe.Build, s.hello, beatFor(s.Hosts)); !another(err) {
			return opened, err
		}
	}
	if path, known := s.known.Load(conn); known {
		return open(path.(string))
	}
	// The launcher's own path: file systems are often shared.
	opened, err := open(s.exe.Path)
	if !another(err) {
		s.known.Store(conn, s.exe.Path)
		return opened, err
	}
	hash, err := s.exe.Hash()
	if err != nil {
		return nil, err
	}
	cached := path.Join(cacheDir, hash[:16], "gorun")
	s.known.Store(conn, cached)
	if opened, err := open(cached); !another(err) {
		return opened, err
	}
	if err := s.uploads.upload(ctx, conn, cached); err != nil {
		return nil, err
	}
	if opened, err = open(cached); err != nil {
		return nil, fmt.Errorf("after the upload: %w", err)
	}
	return opened, nil
}

// Path returns where gorun was found on conn.
func (s *Stager) Path(conn Host) (string, bool) {
	path, known := s.known.Load(conn)
	text, _ := path.(string)
	return text, known
}

// isNoAgent reports whether the command ran and was not an agent of this build, so that
// another path may have one. A killed command may have been an agent.
func isNoAgent(err error) bool {
	var no *NoAgentError
	if !errors.As(err, &no) {
		return false
	}
	code, ended := exitCode(no.Err)
	return ended && code != wire.SignalCode(syscall.SIGKILL) || errors.Is(no.Err, ErrOtherBuild)
}
