package session

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/buildid"
	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/net/wire"
)

// cacheDir is gorun's folder on hosts, relative to the home directory; start.sh has the
// alternatives.
const cacheDir = ".cache/gorun"

// Executable is a gorun that is staged on hosts.
type Executable struct {
	Path string // absolute; hosts may have it there, too
	// Build is the build id that agents of the same build send; "" if this gorun cannot be an
	// agent.
	Build string
	Hash  func() (string, error) // SHA-256 in hex, asked for only by uploads
	// Packed returns its content, compressed by gzip; nil: it is the running gorun.
	Packed func() ([]byte, error)
	// Other returns the gorun for hosts of which uname says another machine; nil: there is none.
	Other func(machine string) (Executable, error)
}

// Paths are the places of a gorun on hosts. Either may be empty.
type Paths struct {
	Installed string // absolute
	Cached    string // path of the upload below the home directory
}

// Paths returns where hosts may have it: at the launcher's own path, since file systems are often
// shared, or in the cache.
func (e Executable) Paths() Paths {
	return Paths{e.Path, path.Join(cacheDir, buildid.Folder(e.Build), "gorun")}
}

// Stager starts gorun on hosts, and uploads it where it is missing.
type Stager struct {
	Hosts   int // number of hosts; sets the time between heartbeats
	exe     Executable
	hello   time.Duration // timeout for a started command to answer
	uploads *uploads
	known   sync.Map // Paths of the gorun on each Host

	startTimeout time.Duration
	foreign      bool // the hosts have another architecture than the launcher
	mu           sync.Mutex
	others       map[string]*Stager // key: machine
	otherOf      sync.Map           // Host to its Stager in others
}

// NewStager returns a stager. The timeout for an agent's answer grows with startTimeout, for slow
// login shells. meter hears of the bytes of gorun that hosts lack.
func NewStager(exe Executable, startTimeout time.Duration, trace func(format string, args ...any),
	meter relay.Meter) *Stager {
	return &Stager{
		exe:          exe,
		hello:        max(helloTime, startTimeout/6),
		uploads:      newUploads(exe, trace, meter),
		startTimeout: startTimeout,
		others:       map[string]*Stager{},
	}
}

// Agent returns a session with an agent of this build on conn, for id. It tries the paths where
// gorun may be, and uploads gorun if none has it: the one for the host's architecture.
func (s *Stager) Agent(ctx context.Context, conn Host, id Identity) (*Session, error) {
	if other, is := s.otherOf.Load(conn); is {
		return other.(*Stager).agent(ctx, conn, id)
	}
	opened, err := s.agent(ctx, conn, id)
	var foreign *foreignError
	if s.exe.Other == nil || !errors.As(err, &foreign) {
		return opened, err
	}
	other, cause := s.other(foreign.machine)
	if cause != nil {
		return nil, &noOtherError{foreign, cause}
	}
	s.otherOf.Store(conn, other)
	return other.agent(ctx, conn, id)
}

// other returns the stager of the gorun for another machine.
func (s *Stager) other(machine string) (*Stager, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.others[machine]; other != nil {
		return other, nil
	}
	exe, err := s.exe.Other(machine)
	if err != nil {
		return nil, err
	}
	other := NewStager(exe, s.startTimeout, s.uploads.trace, s.uploads.meter)
	other.Hosts = s.Hosts
	other.foreign = true
	s.others[machine] = other
	return other, nil
}

func (s *Stager) agent(ctx context.Context, conn Host, id Identity) (*Session, error) {
	open := opening{
		id:      id,
		conn:    conn,
		build:   s.exe.Build,
		foreign: s.foreign,
		hello:   s.hello,
		beat:    beatFor(s.Hosts),
	}
	another := func(err error) bool { return err != nil && isNoAgent(err) && ctx.Err() == nil }
	_, local := conn.(Local)
	switch {
	case local && s.exe.Build == "":
		return nil, noAgentHereError{}
	case local && s.exe.Packed != nil:
		return open.at(ctx, Paths{Installed: s.exe.Path})
	case local:
		return open.at(ctx, Paths{Installed: "/proc/self/exe"})
	case s.exe.Build == "":
		return nil, s.uploads.upload(ctx, conn, path.Join(cacheDir, "none", "gorun"))
	}
	if r, is := conn.(Resident); is && r.AgentBuild() == s.exe.Build {
		if opened, err := open.by(ctx, "the resident agent", r.RunAgent); !another(err) {
			return opened, err
		}
	}
	if at, known := s.known.Load(conn); known {
		return open.at(ctx, at.(Paths))
	}
	both := s.exe.Paths()
	opened, err := open.at(ctx, both)
	if !another(err) {
		s.known.Store(conn, both)
		return opened, err
	}
	cached := Paths{Cached: both.Cached}
	s.known.Store(conn, cached)
	if !isAbsent(err) { // the installed program ran in its place
		if opened, err = open.at(ctx, cached); !another(err) {
			return opened, err
		}
	}
	if err := s.uploads.upload(ctx, conn, cached.Cached); err != nil {
		return nil, err
	}
	if opened, err = open.at(ctx, cached); err != nil {
		return nil, fmt.Errorf("after the upload: %w", err)
	}
	return opened, nil
}

// Paths returns where this gorun was found on conn; false if it was not, or another one runs there.
func (s *Stager) Paths(conn Host) (Paths, bool) {
	at, known := s.known.Load(conn)
	paths, _ := at.(Paths)
	return paths, known
}

// Forget forgets what is known of a connection that has ended. Whoever connects again and again
// calls it: otherwise the stager keeps each connection, with its buffers.
func (s *Stager) Forget(conn Host) {
	if other, is := s.otherOf.LoadAndDelete(conn); is {
		other.(*Stager).Forget(conn)
	}
	s.known.Delete(conn)
}

// noAgentHereError reports that no ranks can run where gorun was started.
type noAgentHereError struct{}

func (noAgentHereError) Error() string {
	return fmt.Sprintf("start ranks on this machine: ranks run on Linux, and this gorun is for %s", runtime.GOOS)
}

func (noAgentHereError) Hint() string { return "name Linux hosts with -H HOST:SLOTS, or in a hostfile" }

// isAbsent reports that no path has a program that is safe to run.
func isAbsent(err error) bool {
	code, _ := exitCode(err)
	return code == codeAbsent || code == codeUnsafe
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
