package pmix

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/kv"
)

// Store is the part of the job's store that PMIx needs.
type Store interface {
	// FenceAll contributes values of ranks of this host, all of which are in it, and waits for the
	// values of all ranks.
	FenceAll(ctx context.Context, name string, values map[int][]byte) ([][]byte, error)
	kv.Keys
}

// Options configure a server.
type Options struct {
	// Program is the helper. Library is the path of the libpmix that the ranks' MPI loads; "" is
	// the system's.
	Program *os.File
	Library string
	// Start runs a program with these open files, of which the first is descriptor 0. It need not
	// wait for the program's end.
	Start func(path string, argv, env []string, files []*os.File) error
	Env   []string // environment of the helper
	Store Store
	// Aborted is called when a rank asks to end the job with an exit code, Broken when the helper
	// ends before Close.
	Aborted func(rank, code int)
	Broken  func(err error)
	Entered func(rank int) // called when a rank calls PMIx_Init; may be nil
	// Refused tells the user once why ranks of this host, of which it is given the first, get an
	// error; may be nil.
	Refused func(rank int, why string)
	// Spawn starts the ranks that a rank asks for, in a world made with [Server.Add], and returns
	// its name; nil: it is refused.
	Spawn func(ctx context.Context, rank int, programs []Program) (name string, err error)
}

// Server serves the ranks of one host. It is safe for concurrent use.
type Server struct {
	opts   Options
	conn   net.Conn
	in     *bufio.Reader
	layout Layout
	byHost [][]int // ranks by host
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup

	writing sync.Mutex
	failing sync.Once     // the helper's failure is reported
	refused sync.Once     // the user knows of the first error
	silence time.Duration // after which a helper that does not answer has failed
	adding  sync.Mutex    // held while one world is described

	mu       sync.Mutex
	places   map[int]place // places of the job itself, which is 0, and of each world
	added    chan struct{} // receives a value when the helper knows the described world
	grown    chan struct{} // closed when another world is known
	meetings map[string]int
	environ  map[int][]string
	inside   map[int]bool // ranks between PMIx_Init and PMIx_Finalize
	fences   int
	wants    int
	echoes   int
	echoed   map[int]chan struct{} // closed when the echo arrives
	promised map[int]promise       // answers that other hosts await, by question number
	asked    map[int]int           // number of questions to each host
}

// promise is an answer that another host awaits.
type promise struct {
	key   string        // key of the store
	asked chan struct{} // holds an element for each open question of that host
}

// loadTime bounds the start of the helper and the loading of libpmix.
const loadTime = 20 * time.Second

// echoTime bounds the wait for an echo, which needs nothing of libpmix's thread. A rank can stop
// the helper, as any process of its user can.
const echoTime = 20 * time.Second

// Open starts the helper. The error says why libpmix cannot be loaded.
func Open(opts Options) (*Server, error) {
	conn, theirs, err := socketpair()
	if err != nil {
		return nil, fmt.Errorf("make a socket for gorun-pmix: %w", err)
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer null.Close()
	s := &Server{
		opts:     opts,
		conn:     conn,
		in:       bufio.NewReader(conn),
		silence:  echoTime,
		environ:  map[int][]string{},
		inside:   map[int]bool{},
		promised: map[int]promise{},
		asked:    map[int]int{},
		echoed:   map[int]chan struct{}{},
		places:   map[int]place{},
		added:    make(chan struct{}, 1),
		grown:    make(chan struct{}),
		meetings: map[string]int{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	err = opts.Start("/proc/self/fd/4", []string{"gorun-pmix", opts.Library}, opts.Env,
		[]*os.File{null, null, null, theirs, opts.Program})
	if err == nil {
		theirs.Close() // an open copy would hide the helper's end
		_, err = s.next(loaded)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("start gorun-pmix: %w", err)
	}
	return s, nil
}

func socketpair() (ours net.Conn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	own := os.NewFile(uintptr(fds[0]), "pmix")
	defer own.Close()
	theirs = os.NewFile(uintptr(fds[1]), "pmix")
	if ours, err = net.FileConn(own); err != nil {
		theirs.Close()
	}
	return ours, theirs, err
}

// errEnded reports that the helper has ended.
var errEnded = errors.New("it has ended")

// next returns the helper's next message, and fails if it is of another kind.
func (s *Server) next(k kind) (message, error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(loadTime)); err != nil {
		return message{}, err
	}
	m, err := receive(s.in)
	switch {
	case err != nil:
		return m, fmt.Errorf("%w: %w", errEnded, err)
	case m.kind == failed:
		return m, errors.New(string(m.text()))
	case m.kind != k:
		return m, fmt.Errorf("it sent a message of type %q where %q was due", m.kind, k)
	}
	return m, nil
}

// Begin describes the job, after which [Server.Environ] is known and ranks may be started. It is
// called once.
func (s *Server) Begin(layout Layout) error {
	s.byHost = layout.byHost()
	s.places[0] = place{hostOf: layout.HostOf, told: true}
	s.layout = layout
	if err := s.describe(); err != nil {
		return fmt.Errorf("describe the job to gorun-pmix: %w", err)
	}
	s.wg.Go(s.serve)
	if len(layout.Hosts) > 1 {
		s.wg.Go(s.answerHosts)
	}
	return nil
}

// describe sends the job to the helper and takes the ranks' variables.
func (s *Server) describe() error {
	if err := s.send(s.layout.frame(s.byHost)); err != nil {
		return err
	}
	for range s.byHost[s.layout.Host] {
		m, err := s.next(environment)
		if err != nil {
			return err
		}
		s.take(&m)
	}
	if _, err := s.next(ready); err != nil {
		return err
	}
	return s.conn.SetReadDeadline(time.Time{})
}

func (s *Server) take(m *message) {
	rank := s.rank(m)
	text := m.text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.environ[rank] = strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// rank reads a world and a rank in it, and returns its number in the job, or -1.
func (s *Server) rank(m *message) int {
	world := m.number()
	rank := m.number()
	if world == 0 {
		return rank
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.places[world]; rank >= 0 && rank < len(p.numbers) {
		return p.numbers[rank]
	}
	return -1
}

// Environ returns the variables, NAME=value, by which a rank finds the server.
func (s *Server) Environ(rank int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.environ[rank]
}

// Inside reports whether an ended rank was between PMIx_Init and PMIx_Finalize. The helper sends
// both events before the rank goes on, so Inside first waits until the sent ones are handled. A
// rank may have ended because the helper has: then Inside returns after Broken was called.
func (s *Server) Inside(rank int) bool {
	came := make(chan struct{})
	s.mu.Lock()
	s.echoes++
	id := s.echoes
	s.echoed[id] = came
	s.mu.Unlock()
	f := newFrame(echo)
	f.number(id)
	s.wg.Go(func() { _ = s.send(f) }) // a helper that is stopped may read nothing; serve sees its end
	late := time.NewTimer(s.silence)
	defer late.Stop()
	select {
	case <-came:
	case <-s.ctx.Done():
	case <-late.C:
		s.fail(fmt.Errorf("it has not answered for %v", s.silence))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.echoed, id)
	return s.inside[rank]
}

// Close ends the helper and all requests.
func (s *Server) Close() {
	s.stop()
	s.conn.Close()
	s.wg.Wait()
}

func (s *Server) send(f frame) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return f.send(s.conn)
}

// serve handles the helper's messages until it ends.
func (s *Server) serve() {
	for {
		m, err := receive(s.in)
		if err == nil {
			err = s.handle(&m)
		} else {
			err = fmt.Errorf("%w: %w", errEnded, err)
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

// fail reports that the helper cannot go on, unless the server closes, and ends all requests.
func (s *Server) fail(err error) {
	s.failing.Do(func() {
		if s.ctx.Err() == nil {
			s.opts.Broken(fmt.Errorf("gorun-pmix, which serves the ranks of this host: %w", err))
			s.stop() // after the report: who waits for the end of the requests comes later
		}
	})
}

// handle handles one message. Handlers that wait for others run on goroutines of their own.
func (s *Server) handle(m *message) error {
	switch m.kind {
	case failed:
		return errors.New(string(m.text()))
	case entered, left:
		rank := s.rank(m)
		s.mu.Lock()
		s.inside[rank] = m.kind == entered
		s.mu.Unlock()
		if m.kind == entered && s.opts.Entered != nil {
			s.opts.Entered(rank)
		}
	case abort:
		id := m.number()
		rank := s.rank(m)
		code := m.number()
		s.opts.Aborted(rank, int(int32(code)))
		s.request(id, func() ([]byte, status) { return nil, done }) // the rank ends when it has the answer
	case spawn:
		id := m.number()
		rank := s.rank(m)
		programs := m.programs()
		s.request(id, func() ([]byte, status) { return s.spawn(rank, programs) })
	case meet:
		id := m.number()
		data := m.text()
		group := m.group()
		meeting := s.meeting(group)
		s.request(id, func() ([]byte, status) { return s.meet(meeting, group, data) })
	case environment:
		s.take(m)
	case ready:
		select {
		case s.added <- struct{}{}:
		default: // no Add waits for it
		}
	case echo:
		s.mu.Lock()
		id := m.number()
		if came := s.echoed[id]; came != nil {
			close(came)
			delete(s.echoed, id)
		}
		s.mu.Unlock()
	case held:
		s.deliver(m.number(), m.number() == 0, m.text())
	case fence:
		id := m.number()
		data := m.text()
		s.mu.Lock()
		s.fences++
		name := "pmix/" + strconv.Itoa(s.fences)
		s.mu.Unlock()
		s.request(id, func() ([]byte, status) { return s.fence(name, data) })
	case fetch:
		id := m.number()
		world := m.number()
		rank := m.number()
		item := string(m.text())
		s.request(id, func() ([]byte, status) { return s.fetch(world, rank, item) })
	case publish:
		id := m.number()
		names := map[string][]byte{}
		for range m.count() {
			name := string(m.text())
			names[name] = m.text()
		}
		s.request(id, func() ([]byte, status) { return nil, s.publish(names) })
	case lookup:
		id := m.number()
		wait := time.Duration(m.number()) * time.Second
		names := m.names()
		s.request(id, func() ([]byte, status) { return s.lookup(names, wait) })
	case unpublish:
		id := m.number()
		names := m.names()
		s.request(id, func() ([]byte, status) { return nil, s.unpublish(names) })
	default:
		return fmt.Errorf("it sent a message of type %q", m.kind)
	}
	if m.err != nil {
		return fmt.Errorf("a message of type %q: %w", m.kind, m.err)
	}
	return nil
}

// count reads a number of items, bounded by the bytes that follow.
func (m *message) count() int { return min(m.number(), len(m.rest)) }

func (m *message) names() (names []string) {
	for range m.count() {
		names = append(names, string(m.text()))
	}
	return names
}

// status is the result of a request, as the helper expects it.
type status int

const (
	done status = iota
	notFound
	duplicate
	broken
)

// request answers the helper with what do returns.
func (s *Server) request(id int, do func() ([]byte, status)) {
	s.wg.Go(func() {
		data, status := do()
		f := newFrame(answer)
		f.number(id)
		f.number(int(status))
		f.text(data)
		_ = s.send(f) // serve sees that the helper has ended
	})
}
