package services

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/mpi/pmi"
	"github.com/gorun/gorun/internal/mpi/pmix"
	"github.com/gorun/gorun/internal/net/admit"
	"github.com/gorun/gorun/internal/net/wire"
)

// FirstFD is the number of a rank's PMI socket in the rank: the first after the standard ones.
const FirstFD = 3

// mpi serves PMI-1 to MPI programs, on a socket that each rank inherits. Ranks in containers that
// inherit no socket connect to a port.
type mpi struct {
	host *pmi.Host
	port net.Listener // nil: no rank needs it
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	aborted func(rank, code int) // a rank called MPI_Abort
	startup *startup

	mu     sync.Mutex
	places map[int]place    // places of spawned ranks, by number
	conns  map[int]*pmiConn // by rank
	aborts map[int]abort    // calls of MPI_Abort, by rank
	others map[int]bool     // ranks on whose sockets another user has written
	left   map[string]bool  // names of shared memory of ended worlds, without their last numbers
}

// place is a rank of a world.
type place struct {
	host *pmi.Host
	rank int
}

// inherited is the agent's end of the socket that a rank has inherited, and all below it, whoever
// they have become.
type inherited struct {
	*net.UnixConn
	foreign func() // called where another user than the agent's has written
}

// Read asks the kernel who has written.
func (c inherited) Read(b []byte) (int, error) {
	said := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, size, _, _, err := c.ReadMsgUnix(b, said)
	if n > 0 && !isOwnWord(said[:size]) {
		c.foreign()
	}
	return max(n, 0), err // -1 where it fails
}

// isOwnWord reports whether a process of this user has sent a control message.
func isOwnWord(said []byte) bool {
	messages, err := unix.ParseSocketControlMessage(said)
	if err != nil || len(messages) != 1 {
		return false
	}
	who, err := unix.ParseUnixCredentials(&messages[0])
	return err == nil && who.Uid == uint32(os.Geteuid())
}

// pmiConn is the connection with a rank over the socket that it inherited.
type pmiConn struct {
	conn inherited
	stop context.CancelFunc // ends waiting for other ranks
	over chan struct{}      // closed when it has ended
}

// abort is a rank's call of MPI_Abort.
type abort struct {
	code int
	at   time.Time
}

// End is how a rank has ended.
type End struct {
	MPI          wire.MPIEnd
	Asked        int // the code given to MPI_Abort
	Code, Signal int
	Aborted      time.Time // time of its call of MPI_Abort, if any
}

// newMPI serves the ranks of job; kill ends a rank that called MPI_Abort.
func newMPI(job wire.Job, store pmi.Store, port bool, send func(wire.Type, any), kill func(rank int)) (*mpi, error) {
	m := &mpi{
		startup: newStartup(job, send),
		conns:   map[int]*pmiConn{},
		places:  map[int]place{},
		aborts:  map[int]abort{},
		others:  map[int]bool{},
		left:    map[string]bool{},
	}
	m.aborted = func(rank, code int) {
		m.mu.Lock()
		if _, before := m.aborts[rank]; !before {
			m.aborts[rank] = abort{code, time.Now()}
		}
		m.mu.Unlock()
		kill(rank)
	}
	m.host = &pmi.Host{
		Name:     "kvs_" + job.ID,
		Size:     job.Size,
		Programs: map[int]int{},
		Store:    store,
		Aborted:  m.aborted,
		Entered:  m.startup.enter,
		Universe: job.Spawn.Universe,
	}
	for _, r := range job.Ranks {
		m.host.Programs[r.Rank] = programOf(job, r.Rank)
	}
	m.ctx, m.stop = context.WithCancel(context.Background())
	if !port {
		return m, nil
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	var err error
	if m.port, err = lc.Listen(m.ctx, "tcp4", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("open a port for MPI programs in containers: %w", err)
	}
	m.wg.Go(m.accept)
	return m, nil
}

// place is where the rank with a number is served.
func (m *mpi) place(rank int) place {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, spawned := m.places[rank]; spawned {
		return p
	}
	return place{m.host, rank}
}

// programOf is the number of a rank's program among the job's, which may run on other hosts.
func programOf(job wire.Job, rank int) int {
	last := 0
	for i, share := range job.Shares {
		if last += share; rank < last {
			return i
		}
	}
	return 0
}

// address is the value of PMI_PORT, or "" where no rank needs it.
func (m *mpi) address() string {
	if m.port == nil {
		return ""
	}
	return m.port.Addr().String()
}

// connect makes a rank's socket and serves it. The caller closes theirs when the rank has it.
func (m *mpi) connect(rank int) (theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket for PMI: %w", err)
	}
	own := os.NewFile(uintptr(fds[0]), "pmi")
	defer own.Close()
	theirs = os.NewFile(uintptr(fds[1]), "pmi")
	err = unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	var end net.Conn
	if err == nil {
		end, err = net.FileConn(own)
	}
	if err != nil {
		theirs.Close()
		return nil, fmt.Errorf("serve PMI: %w", err)
	}
	// It is one end of a socketpair.
	conn := inherited{end.(*net.UnixConn), func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.others[rank] = true
	}}
	ctx, stop := context.WithCancel(m.ctx)
	p := m.place(rank)
	t := &pmiConn{conn, stop, make(chan struct{})}
	m.mu.Lock()
	m.conns[rank] = t
	m.mu.Unlock()
	m.wg.Go(func() {
		defer close(t.over)
		defer stop()
		defer conn.Close()
		_ = p.host.Serve(ctx, conn, p.rank) // a rank that breaks the protocol reads EOF
	})
	return theirs, nil
}

// accept serves ranks at the port.
func (m *mpi) accept() {
	var peers admit.Peers
	defer peers.Close()
	for {
		conn, err := m.port.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of descriptors until some are closed
			continue
		}
		if !ownRank(&peers, conn) {
			conn.Close()
			continue
		}
		closed := context.AfterFunc(m.ctx, func() { conn.Close() })
		m.wg.Go(func() {
			defer closed()
			defer conn.Close()
			_ = m.host.ServeUnidentified(m.ctx, conn)
		})
	}
}

// answerTime bounds an answer to a rank that has ended: nobody may read it.
const answerTime = time.Second

// foreign reports whether another user has sent messages in the name of a rank.
func (m *mpi) foreign(rank int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.others[rank]
}

// finish handles what a rank sent before it ended, such as MPI_Abort, and closes its socket, which
// its children may hold open.
func (m *mpi) finish(rank int) {
	m.mu.Lock()
	t := m.conns[rank]
	delete(m.conns, rank)
	m.mu.Unlock()
	if t == nil {
		return
	}
	t.stop()
	_ = t.conn.SetWriteDeadline(time.Now().Add(answerTime))
	_ = t.conn.CloseRead() // what was sent before can still be read
	<-t.over
}

// end describes the end of a rank to MPI. PMIx may report that the rank was inside MPI. A rank that
// called MPI_Abort may crash before it exits.
func (m *mpi) end(rank, code, signal int, server *pmix.Server) End {
	m.finish(rank)
	p := m.place(rank)
	inside := p.host.Inside(p.rank) || server != nil && server.Inside(rank)
	m.mu.Lock()
	asked, aborted := m.aborts[rank]
	m.mu.Unlock()
	switch {
	case aborted:
		return End{
			MPI:     wire.MPIAborted,
			Asked:   asked.code,
			Code:    asked.code & 0xff,
			Aborted: asked.at,
		}
	case code == 0 && signal == 0 && inside:
		return End{MPI: wire.MPIUnfinished}
	}
	return End{Code: code, Signal: signal}
}

// forget frees the number of a spawned rank.
func (m *mpi) forget(number int) {
	m.mu.Lock()
	p, known := m.places[number]
	delete(m.places, number)
	delete(m.others, number)
	others := slices.ContainsFunc(slices.Collect(maps.Values(m.places)), func(other place) bool {
		return other.host == p.host
	})
	m.mu.Unlock()
	if known && !others {
		m.leave(p.host)
	}
}

func (m *mpi) close() {
	m.startup.end()
	m.stop()
	if m.port != nil {
		m.port.Close()
	}
	m.mu.Lock()
	for _, t := range m.conns {
		t.conn.Close()
	}
	m.mu.Unlock()
	m.wg.Wait()
	m.leave(m.host)
	for _, p := range m.places {
		m.leave(p.host)
	}
	if len(m.left) > 0 {
		removeNumbered(trust.Names(pmi.SegmentFolder, maxNames), m.left)
	}
}

// maxNames bounds the names that are looked at in a folder in which other users may make millions.
const maxNames = 1 << 22

// leave removes the shared memory that the ranks of a world have left, all of which have ended. It
// only notes names of which a number is not known: close looks once for those of all worlds.
func (m *mpi) leave(h *pmi.Host) {
	paths, numbered := h.Segments()
	for _, path := range paths {
		removeOwn(path)
	}
	if numbered != "" {
		m.mu.Lock()
		m.left[numbered] = true
		m.mu.Unlock()
	}
}

// removeNumbered removes the shared memory that has one of the names and a number.
func removeNumbered(names iter.Seq[string], left map[string]bool) {
	for name := range names {
		if left[name[:strings.LastIndexByte(name, '_')+1]] {
			removeOwn(filepath.Join(pmi.SegmentFolder, name))
		}
	}
}

// removeOwn removes a file if it is this user's: a rank that has become another user may have named
// a third user's.
func removeOwn(file string) {
	if ownFile(file) {
		_ = os.Remove(file) // another rank's agent may have done so
	}
}

// ownFile reports whether a file in a folder that users share is this user's.
func ownFile(file string) bool {
	info, err := trust.Lstat(file)
	return err == nil && info.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid())
}
