package session

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/plan"
)

// Host is a machine the launcher can use. *ssh.Client is one, [Local] another.
type Host interface {
	// Run runs a command and returns when it has ended, or ctx has. An exit
	// status other than 0 is an error with an ExitCode() int method.
	Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error
	// Put writes a file; a relative path is below the home directory.
	Put(ctx context.Context, path string, mode fs.FileMode, r io.Reader) error
	Close() error
}

// Resident is a Host that starts agents itself, without a command for each.
type Resident interface {
	// AgentBuild returns the build of the agents, or "" if there is none now.
	AgentBuild() string
	// RunAgent runs an agent's guard as Run runs a command.
	RunAgent(ctx context.Context, nonce string, stdin io.Reader, stdout, stderr io.Writer) error
}

const (
	// BeatTime is short: TCP needs unacknowledged data in flight to detect a dead peer.
	BeatTime    = time.Second / 2
	mostBeat    = 4 * time.Second // an agent that has no job yet waits helloTime for a frame
	manyHosts   = 512
	helloTime   = 10 * time.Second // time limit of an agent's answer; see NewStager
	partingTime = 2 * time.Second  // time limit of an agent's end after its stdin's
)

// beatFor is the time between heartbeats to each host of a job. It grows with their number, so that
// all heartbeats together cost a launcher of thousands of hosts a small part of a core.
func beatFor(hosts int) time.Duration {
	return min(BeatTime*time.Duration(max(hosts, manyHosts))/manyHosts, mostBeat)
}

// AgentCommand is the first argument that makes gorun an agent's guard; the
// second is the nonce.
const AgentCommand = "__agent"

// Identity is the host, or the process of an elastic job, that a session serves.
type Identity struct {
	Index int // index of the host in the plan, or of an elastic job's process
	Host  *plan.Host
	// Now returns the epoch in which an elastic job's process is, 0 before its first, and its rank;
	// nil: the job has no epochs, and ranks keep their numbers. Safe for concurrent use.
	Now func() (epoch, rank int)
	// Spare reports whether the process waits for its first epoch; nil: it does not. Safe for
	// concurrent use.
	Spare func() bool
}

// Owns reports whether a rank is the host's.
func (id Identity) Owns(rank int) bool { return id.Host.Has(rank) }

// streams is how many bulk streams the host's ranks may have at a time: stdout, stderr and the
// result of each. As many spawned ranks as run may have ended with output that waits to be written.
func (id Identity) streams() int {
	if id.Host == nil { // no ranks are started
		return 0
	}
	return 3 * (len(id.Host.Ranks) + 2*id.Host.Spawn.Most)
}

// RankNow returns the current number of a rank of the host, which changes in an elastic job.
func (id Identity) RankNow(rank int) int {
	if id.Now != nil {
		_, rank = id.Now()
	}
	return rank
}

// user returns the host as the store knows it.
func (id Identity) user() kv.Host {
	h := kv.Host{Name: id.Host.Name, Index: id.Index, Owns: id.Owns}
	if id.Now != nil {
		epoch, now := id.Now()
		h.Epoch = epoch
		h.Owns = func(rank int) bool { return rank == now }
	}
	return h
}

// Session is the launcher's connection to one agent, through one command on one host.
type Session struct {
	Identity
	Conn  Host
	Hello wire.Hello   // first message of the agent
	Ready wire.Ready   // message of the agent when its ranks could start
	Out   *outbox      // frames to the agent
	Input *wire.Credit // credit of standard input; nil: none of the ranks reads it
	*command
	Liveness
	validator
	errands
	gets    atomic.Int64 // requests that wait for keys
	foreign bool         // whether its architecture differs from the launcher's
}

// opening is how a session with an agent on conn begins.
type opening struct {
	id      Identity
	conn    Host
	build   string // build of the agent
	foreign bool
	hello   time.Duration // timeout for the agent's hello
	beat    time.Duration // between heartbeats
}

// at opens a session with the agent at one of the paths. It lives until Close, also beyond ctx. An
// account that runs no command is a *NoShellError.
func (o opening) at(ctx context.Context, at Paths) (*Session, error) {
	s, err := o.by(ctx, cmp.Or(at.Installed, at.Cached),
		func(ctx context.Context, nonce string, stdin io.Reader, stdout, stderr io.Writer) error {
			return o.conn.Run(ctx, Command(o.conn, at, AgentCommand, nonce), stdin, stdout, stderr)
		})
	var no *NoAgentError
	if _, local := o.conn.(Local); !local && errors.As(err, &no) && no.forced != nil {
		return nil, no.forced
	}
	return s, err
}

// by opens a session with the agent that run runs; path names it in errors.
func (o opening) by(ctx context.Context, path string, run runAgent) (*Session, error) {
	c, hello, err := startAgent(ctx, path, run, o.build, o.hello)
	if err != nil {
		return nil, err
	}
	out := newOutbox(wire.NewWriter(c.stdin), o.id.streams())
	out.full = c.Cancel // a host that reads nothing counts as lost
	s := o.session(c, hello, out)
	go s.beat(o.beat)
	return s, nil
}

// session returns a session with an agent that has said hello.
func (o opening) session(c *command, hello wire.Hello, out *outbox) *Session {
	hello.Reached = reached(o.conn, hello.Reached)
	s := &Session{
		Identity:  o.id,
		Conn:      o.conn,
		Hello:     hello,
		Out:       out,
		command:   c,
		validator: validator{identity: o.id, exited: map[int]bool{}, spawned: map[int]bool{}},
		errands: errands{
			host:    o.id,
			out:     out,
			open:    map[uint32]*Errand{},
			running: map[uint32]bool{},
		},
		foreign: o.foreign,
	}
	s.ResetSilence()
	return s
}

// reached returns the address at which a host was reached, as the host tells it: it may know
// another one than the launcher. But a host whose connection leads elsewhere is not this machine,
// whatever it says: ranks here would connect to services of their own.
func reached(conn Host, told string) string {
	known, is := conn.(interface{ RemoteAddr() net.Addr })
	ip, err := netip.ParseAddr(told)
	if !is || err != nil || !ip.Unmap().IsLoopback() {
		return told
	}
	at, is := known.RemoteAddr().(*net.TCPAddr)
	if !is || at.IP.IsLoopback() {
		return told
	}
	return at.IP.String()
}

// request sends a message and decodes its answer, which has the given type.
func (s *Session) request(t wire.Type, payload []byte, want wire.Type, answer any) error {
	s.Out.Send(t, payload)
	f, err := s.answer()
	if err != nil {
		return err
	}
	return f.Expect(want, answer)
}

// Helpers returns programs and libraries for hosts that need them. Functions may be called
// concurrently; a nil one has none.
type Helpers struct {
	GPU func() ([]byte, error)        // gorun-gpu, compressed
	MPI func(need wire.Need) wire.MPI // returns what exists of what is needed
}

// Prepare sends the job, and what the host needs for it, and waits until the host is ready. A
// refusal is a *RefusedError.
func (s *Session) Prepare(ctx context.Context, job wire.Job, helpers Helpers,
	trace func(format string, args ...any)) error {
	err := s.during(ctx, func() error {
		if wantsGPUProgram(s.Hello, job.GPUs) {
			switch n, err := s.sendGPUProgram(helpers.GPU); {
			case err != nil:
				trace("%s: gorun-gpu is not sent: %v", job.Host, err) // the host assigns GPUs by /proc
			case n > 0:
				trace("%s: sent gorun-gpu: %d bytes", job.Host, n)
			}
		}
		s.Out.SendMessage(wire.TypeJob, job)
		f, err := s.nextFrame()
		if err == nil && f.Type == wire.TypeNeed {
			err = wire.Handle(f, func(need wire.Need) error {
				s.Out.SendMessage(wire.TypeMPI, s.needed(need, helpers))
				return nil
			})
			if err == nil {
				f, err = s.nextFrame()
			}
		}
		if err != nil {
			return err
		}
		if f.Type == wire.TypeRefuse {
			return wire.Handle(f, func(r wire.Refuse) error {
				return &RefusedError{r.Code, Reason(r.What), Clean(r.Remedy)}
			})
		}
		return f.Expect(wire.TypeReady, &s.Ready)
	})
	s.checkReady(&s.Ready)
	if len(job.Stdin) > 0 {
		s.Input = wire.NewCredit()
	}
	return err
}

// needed returns what the host needs for MPI programs. It is made for the launcher's architecture.
func (s *Session) needed(need wire.Need, helpers Helpers) (mpi wire.MPI) {
	if helpers.MPI == nil || s.foreign {
		return mpi
	}
	return helpers.MPI(need)
}

// Close ends the session, the agent and its ranks, and waits for them as long as a host may take.
func (s *Session) Close() {
	s.Out.close()
	s.command.close()
}

// HangUp ends the agent and its ranks as Close does, but does not wait; the session's reader sees
// the end. It is for sessions that share a connection, which therefore cannot be closed.
func (s *Session) HangUp() {
	s.Out.close()
	s.command.hangUp()
}

// beat sends heartbeats until the session has ended.
func (s *Session) beat(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for began := time.Now(); ; {
		select {
		case <-ticker.C:
			s.Out.beat(time.Since(began))
		case <-s.ended:
			return
		}
	}
}

// RefusedError is an agent's report that the job cannot run on its host.
type RefusedError struct {
	Code   int    // the exit code that gorun ends with
	What   string // the reason
	Remedy string // remedy for the user, or ""
}

func (e *RefusedError) Error() string { return e.What }

// ExitCode is the code gorun should end with.
func (e *RefusedError) ExitCode() int { return e.Code }

// Hint returns what to change; it may be empty.
func (e *RefusedError) Hint() string { return e.Remedy }

// CountOutput counts a frame of a rank's output with n bytes, for which the stream's Creditor gives
// credit back. It waits while the host's ranks have left too much that is not written.
func (s *Session) CountOutput(stream uint32, n int) error {
	defer s.hold()()
	return s.Out.countReceived(stream, n)
}

// Put puts a value of the session's host into the store.
func (s *Session) Put(store *kv.Store, p wire.Put) error {
	return store.PutBy(s.user(), p.Key, p.Value)
}

// Get answers the session's request when the key is in the store or the wait is over, or ctx ends
// with the job. Nothing waits longer than the session: hosts of an elastic job have many of them.
func (s *Session) Get(ctx context.Context, store *kv.Store, g wire.Get) error {
	if err := checkGet(g); err != nil {
		return err
	}
	if s.gets.Add(1) > maxGets {
		return &wire.FormatError{Reason: "too many requests wait for keys"}
	}
	go func() { // ends with the wait, the session or the job
		defer s.gets.Add(-1)
		ctx, cancel := context.WithTimeout(ctx, g.Wait)
		defer cancel()
		defer context.AfterFunc(s.life, cancel)()
		store.Get(ctx, g.Key)
		cancel()
		s.Out.answer(g.ID, func() ([]byte, bool) {
			value, found := store.Get(ctx, g.Key)
			store.Got(s.Index, g.Key)
			return value, found
		})
	}()
	return nil
}
