package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/files/trust"
)

// backlog is the number of clients that may wait to be accepted.
const backlog = 64

// socket is a listener for processes of this user and root.
type socket struct {
	net.Listener
	folder *os.File
	name   string
	id     string
	once   sync.Once
	err    error // error of the first Close
}

// listen creates the socket of a new job in the first usable folder. The job's id begins with kind.
func (p Place) listen(folders []string, kind string) (*socket, error) {
	if len(folders) == 0 {
		return nil, errNoFolder
	}
	var errs []error
	for _, path := range folders {
		dir, err := trust.OpenDir(path, true)
		if err == nil {
			var s *socket
			if s, err = p.listenIn(dir, kind); err == nil {
				return s, nil
			}
			dir.Close()
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (p Place) listenIn(dir *os.File, kind string) (*socket, error) {
	for {
		id := kind + newID()
		if p.taken(id) {
			continue
		}
		name := p.socketName(id)
		fd, err := ownSocket()
		if err != nil {
			return nil, os.NewSyscallError("socket", err)
		}
		file := os.NewFile(uintptr(fd), name)
		// The socket gets its name once it listens: before that it would look dead.
		fresh := name + ".new"
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: entry(dir, fresh)})
		if err == nil {
			err = unix.Listen(fd, backlog)
		}
		if err == nil {
			err = unix.Renameat(int(dir.Fd()), fresh, int(dir.Fd()), name)
		}
		if err != nil {
			file.Close()
			if errors.Is(err, unix.EADDRINUSE) {
				continue
			}
			return nil, fmt.Errorf("make a socket in %s: %w", dir.Name(), err)
		}
		l, err := net.FileListener(file)
		file.Close()
		if err != nil {
			return nil, err
		}
		return &socket{
			Listener: l,
			folder:   dir,
			name:     name,
			id:       id,
		}, nil
	}
}

// taken reports whether a job in either folder has the id.
func (p Place) taken(id string) bool {
	for _, path := range p.folders() {
		if has(path, p.socketName(id), id) {
			return true
		}
	}
	return false
}

// has reports whether a folder of this user's, which nobody else shows, has one of the names.
func has(path string, names ...string) bool {
	dir, err := trust.OpenDir(path, false)
	if err != nil {
		return false
	}
	defer dir.Close()
	return slices.ContainsFunc(names, func(name string) bool {
		_, err := os.Lstat(entry(dir, name))
		return err == nil
	})
}

// Accept returns the next connection of this user or root. It closes those of others.
func (s *socket) Accept() (net.Conn, error) {
	for {
		conn, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if uid, err := peer(conn); err == nil && (uid == os.Geteuid() || uid == 0) {
			return conn, nil
		}
		conn.Close()
	}
}

// Close removes the socket. Further calls do nothing.
func (s *socket) Close() error {
	s.once.Do(func() {
		s.err = s.Listener.Close()
		if gone := unix.Unlinkat(int(s.folder.Fd()), s.name, 0); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			s.err = errors.Join(s.err, gone)
		}
		s.err = errors.Join(s.err, s.folder.Close())
	})
	return s.err
}

// peer returns the user at the other end of a unix socket.
func peer(conn net.Conn) (uid int, err error) {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return -1, err
	}
	uid = -1
	controlErr := raw.Control(func(fd uintptr) {
		uid, err = peerUID(int(fd))
	})
	return uid, errors.Join(controlErr, err)
}

// errDead reports a socket whose job has ended without removing it.
var errDead = errors.New("the job's gorun has ended")

// dial connects to a socket in a folder. It removes one that nobody listens on.
func dial(ctx context.Context, path, name string) (net.Conn, error) {
	dir, err := trust.OpenDir(path, false)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", entry(dir, name))
	if errors.Is(err, unix.ECONNREFUSED) {
		_ = unix.Unlinkat(int(dir.Fd()), name, 0) // another process may have removed it
		return nil, errDead
	}
	if err != nil {
		return nil, err
	}
	if uid, err := peer(conn); err != nil || uid != os.Geteuid() && uid != 0 {
		conn.Close()
		return nil, fmt.Errorf("user %d listens on %s", uid, filepath.Join(path, name))
	}
	return conn, nil
}
