package agent

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/wire"
)

// drainTime is how long an output pipe may stay open after its rank has ended: a
// child of the rank may hold it for ever.
const drainTime = 2 * time.Second

// pump carries one rank's stdout or stderr to the launcher. It reads only what it
// has credit for, so a launcher that cannot print stops the rank, not the agent.
type pump struct {
	file   *os.File
	stream uint32
	credit *wire.Credit
	out    *wire.Writer
	late   bool // the deadline has passed, and
	last   int  // bytes that were in the pipe then are still to be read
}

// run carries bytes until the pipe ends or is cut. When there is nobody to
// carry them to, it goes on reading: a rank that says its last words must not
// die of saying them.
func (p *pump) run(buf []byte) {
	defer p.file.Close()
	for {
		limit := p.credit.Take(len(buf))
		nobody := limit == 0
		if nobody {
			limit = len(buf)
		}
		n, err := p.file.Read(buf[:limit])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			n, err = p.readLast(buf[:limit])
		}
		if nobody {
			if err != nil {
				return
			}
			continue
		}
		if n > 0 && p.out.Send(wire.TypeOutput, p.stream, buf[:n]) != nil {
			p.credit.Close()
		}
		if n < limit {
			_ = p.credit.Add(limit - max(n, 0))
		}
		if err != nil {
			return
		}
	}
}

// rankEnded starts the time limit for a pipe that somebody else holds open.
func (p *pump) rankEnded() {
	_ = p.file.SetReadDeadline(time.Now().Add(drainTime))
}

// readLast reads after the deadline what was in the pipe when it passed. Then the
// pipe is cut, whoever still writes to it: err is io.EOF.
func (p *pump) readLast(buf []byte) (n int, err error) {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	_ = p.file.SetReadDeadline(time.Time{}) // or raw.Read would only say again that it has passed
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
			n, err = got, nil
			p.last -= got
		}
		return true
	})
	return n, errors.Join(err, rawErr)
}
