package errand

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/host/process"
	"github.com/gorun/gorun/internal/net/wire"
)

const (
	// drainTime is how long a command's output is read after its end: a child may hold it open.
	drainTime = time.Second
	// partTime is between the SIGHUP and the SIGKILL of a command that nobody waits for.
	partTime = time.Second
)

// exec runs a command in the environment of a rank and returns its exit code.
func (e *errand) exec() (code int, err error) {
	rank := -1
	pid := 0
	running := false
	for _, rank = range e.ranks() {
		if pid, running = e.server.host.PID(rank); running {
			break
		}
	}
	switch {
	case rank < 0:
		return 0, errors.New("no rank runs on the host, whose environment the command would get")
	case !running:
		return 0, fmt.Errorf("rank %d has ended, and its environment with it", rank)
	}
	p, err := e.process(pid)
	if err != nil {
		return 0, fmt.Errorf("read the environment of rank %d: %w", rank, err)
	}
	path, _ := process.Environment(p.Env).Lookup("PATH")
	if p.Path, err = e.server.host.Find(p.Argv[0], p.Dir, path); err != nil {
		return 0, err
	}
	links, err := e.connect()
	if err != nil {
		return 0, err
	}
	p.Files = links.files()
	err = e.server.host.Start(p)
	links.closeTheirs()
	if err != nil {
		links.closeOurs()
		return wire.CodeNotExecutable, fmt.Errorf("start %s: %w", p.Path, err)
	}
	return e.attend(p, links), nil
}

// process returns the process to start, without its path and files. Beside a rank that has become
// another user it starts as that user, since that user says what the environment is.
func (e *errand) process(pid int) (p Process, err error) {
	rank, owner, err := process.OpenAs(pid)
	if err != nil {
		return p, err
	}
	defer rank.Close()
	environ, err := rank.Environment()
	if err != nil {
		return p, err
	}
	p.ID = e.ask.ID
	p.Terminal = e.ask.Terminal != nil
	p.Owner = owner
	if p.Dir, err = rank.Folder(); err != nil {
		return p, fmt.Errorf("find its working directory: %w", err)
	}
	// The descriptors that these name are the rank's alone.
	p.Env = slices.DeleteFunc(environ, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return name == "PMI_FD" || name == "GORUN_RESULT_FD" || name == "TERM" && p.Terminal
	})
	if p.Terminal {
		p.Env = append(p.Env, "TERM="+e.ask.Terminal.Name)
	}
	p.Argv = e.ask.Argv
	if len(p.Argv) == 0 || p.Argv[0] == "" {
		return p, errors.New("no command")
	}
	return p, nil
}

// links connect a command with its errand.
type links struct {
	in       *os.File // the agent's end of standard input
	out      []*os.File
	theirs   []*os.File // files 0, 1 and 2; a terminal is only the first
	terminal bool
}

func (l *links) files() []uintptr {
	if l.terminal {
		fd := l.theirs[0].Fd()
		return []uintptr{fd, fd, fd}
	}
	return []uintptr{l.theirs[0].Fd(), l.theirs[1].Fd(), l.theirs[2].Fd()}
}

func (l *links) closeTheirs() {
	for _, f := range l.theirs {
		f.Close()
	}
}

func (l *links) closeOurs() {
	l.in.Close()
	for _, f := range l.out {
		// A terminal is closed twice, which does no harm.
		f.Close()
	}
}

func (e *errand) connect() (l *links, err error) {
	if t := e.ask.Terminal; t != nil {
		return e.openTerminal(*t)
	}
	l = &links{}
	defer func() {
		if err != nil {
			l.closeTheirs()
			l.closeOurs()
		}
	}()
	in, ours, err := os.Pipe()
	if err != nil {
		return l, fmt.Errorf("make a pipe: %w", err)
	}
	l.theirs = append(l.theirs, in)
	l.in = ours
	for range 2 {
		read, write, err := os.Pipe()
		if err != nil {
			return l, fmt.Errorf("make a pipe: %w", err)
		}
		l.out = append(l.out, read)
		l.theirs = append(l.theirs, write)
	}
	return l, nil
}

// openTerminal makes a terminal of a size that the user can change.
func (e *errand) openTerminal(t wire.Terminal) (*links, error) {
	own, err := newTerminal()
	if err != nil {
		return nil, err
	}
	e.sizes(own, t)
	return &links{
		in:       own.master,
		out:      []*os.File{own.master},
		theirs:   []*os.File{own.slave},
		terminal: true,
	}, nil
}

// sizes gives a terminal the size of the user's, now and when that changes.
func (e *errand) sizes(t *terminal, first wire.Terminal) {
	resize := func(size wire.Terminal) { t.resize(size.Rows, size.Columns) }
	resize(first)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.resize = resize
}

// attend carries a command's input and output to its end, and returns its exit code.
func (e *errand) attend(p Process, l *links) int {
	var pumps, input sync.WaitGroup
	for i, file := range l.out {
		pumps.Go(func() { e.pump(file, wire.TellOut+wire.Tell(i)) })
	}
	input.Go(func() {
		e.feed(l.in, func() {
			if !l.terminal {
				l.in.Close()
			}
		})
	})
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-over:
			return
		case <-e.dropped:
		}
		e.server.host.SignalProcess(p.ID, syscall.SIGHUP)
		select {
		case <-over:
		case <-time.After(partTime):
			e.server.host.SignalProcess(p.ID, syscall.SIGKILL)
		}
	})
	status := e.await()
	close(over)
	watch.Wait()
	for _, file := range l.out {
		_ = file.SetReadDeadline(time.Now().Add(drainTime))
	}
	pumps.Wait()
	e.endInput()
	l.closeOurs() // ends a blocked write
	input.Wait()
	if status.Signaled() {
		return wire.SignalCode(status.Signal())
	}
	return status.ExitStatus()
}

// await waits for the end of the command. One that SIGKILL does not end counts as killed.
func (e *errand) await() syscall.WaitStatus {
	select {
	case status := <-e.exited:
		return status
	case <-e.dropped:
	}
	select {
	case status := <-e.exited:
		return status
	case <-time.After(partTime + drainTime):
		return syscall.WaitStatus(syscall.SIGKILL)
	}
}

// pump sends what comes, as far as there is credit. Without anybody to send it to, it drops it.
func (e *errand) pump(from io.Reader, kind wire.Tell) {
	buf := make([]byte, 32<<10)
	for {
		limit := e.credit.Take(len(buf))
		nobody := limit == 0
		if nobody {
			limit = len(buf)
		}
		n, err := from.Read(buf[:limit])
		if !nobody {
			if n > 0 {
				_ = e.server.out.SendTell(e.ask.ID, kind, buf[:n])
				_ = e.credit.Add(limit - n)
			} else {
				_ = e.credit.Add(wire.Cost(limit))
			}
		}
		if err != nil { // EIO: the last process has closed the terminal
			return
		}
	}
}

// feed writes the errand's input, and calls end at its end.
func (e *errand) feed(to io.Writer, end func()) {
	broken := false
	for {
		data := e.nextInput()
		if len(data) == 0 {
			end()
			return
		}
		if !broken {
			_, err := to.Write(data)
			broken = err != nil
		}
		e.mu.Lock()
		e.taken -= wire.Cost(len(data))
		e.mu.Unlock()
		_ = e.server.out.SendTell(e.ask.ID, wire.TellCredit,
			binary.BigEndian.AppendUint32(nil, uint32(wire.Cost(len(data)))))
	}
}
