package agent

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/wire"
)

// drainTime is how long an output pipe is read after its rank has ended: a child of the rank may
// hold it open for ever.
const drainTime = 2 * time.Second

// pauseTime is how long a rank is silent in the middle of a line before the agent reports a pause.
const pauseTime = 100 * time.Millisecond

// pump carries one output stream of a rank to the launcher. It reads only what it
// has credit for, so a launcher that cannot print stops the rank, not the agent.
type pump struct {
	file   *os.File
	stream uint32
	credit *wire.Credit
	out    *wire.Writer
	lines  bool // a stream of text, whose pauses are reported
	late   bool // the rank's deadline has passed
	last   int  // bytes that were in the pipe at the deadline and are not read yet

	mu    sync.Mutex
	endBy time.Time // time at which the pipe is cut; zero while the rank runs
	armed time.Time // the file's deadline
}

// run carries bytes until the pipe ends or is cut. Without a launcher it reads on: a rank that
// prints must not die of SIGPIPE. A frame without bytes reports that the rank pauses, or has ended,
// in the middle of a line, which only this end of the pipe can know.
func (p *pump) run(buf []byte) {
	defer p.file.Close()
	midline := false
	for {
		limit := p.credit.Take(len(buf))
		nobody := limit == 0
		if nobody {
			limit = len(buf)
			midline = false
		}
		n, err := p.read(buf[:limit], midline)
		ended := err != nil && !errors.Is(err, errPause)
		pauses := err != nil && midline
		if !nobody && (n > 0 || pauses) {
			if p.out.Send(wire.TypeOutput, p.stream, buf[:n]) != nil {
				p.credit.Close()
			}
			_ = p.credit.Add(limit - n)
			midline = p.lines && n > 0 && buf[n-1] != '\n'
		} else if !nobody {
			_ = p.credit.Add(wire.Cost(limit))
		}
		if ended {
			return
		}
	}
}

// errPause is a read that found nothing for pauseTime.
var errPause = errors.New("the rank pauses")

// read waits for bytes, in the middle of a line no longer than pauseTime.
func (p *pump) read(buf []byte, midline bool) (n int, err error) {
	p.arm(midline)
	n, err = p.file.Read(buf)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	if p.cut() {
		return p.readLast(buf)
	}
	if midline {
		return 0, errPause
	}
	return 0, nil // the deadline of an earlier read
}

// arm sets the file's deadline: the end of the pipe, or a pause before it.
func (p *pump) arm(midline bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.endBy
	if pause := time.Now().Add(pauseTime); midline && (at.IsZero() || pause.Before(at)) {
		at = pause
	}
	if at != p.armed {
		p.armed = at
		_ = p.file.SetReadDeadline(at)
	}
}

// cut reports whether the rank has ended and the pipe's time has passed.
func (p *pump) cut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.endBy.IsZero() && !time.Now().Before(p.endBy)
}

// rankEnded sets the deadline of a pipe that another process may hold open.
func (p *pump) rankEnded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endBy = time.Now().Add(drainTime)
	p.armed = p.endBy
	_ = p.file.SetReadDeadline(p.endBy)
}

// readLast reads, after the deadline, the bytes that were in the pipe when it passed. Then it cuts
// the pipe, even if a process still writes to it: err is io.EOF.
func (p *pump) readLast(buf []byte) (n int, err error) {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	_ = p.file.SetReadDeadline(time.Time{}) // otherwise raw.Read fails with the deadline again
	defer func() { _ = p.file.SetReadDeadline(time.Now()) }()
	err = io.EOF
	rawErr := raw.Read(func(fd uintptr) bool {
		if !p.late {
			p.late = true
			p.last, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		}
		if p.last == 0 {
			return true
		}
		if got, readErr := syscall.Read(int(fd), buf[:min(len(buf), p.last)]); readErr == nil && got > 0 {
			n = got
			err = nil
			p.last -= got
		}
		return true
	})
	return n, errors.Join(err, rawErr)
}
