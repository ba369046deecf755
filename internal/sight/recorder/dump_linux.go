package recorder

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/release"
)

// maxDump bounds the stacks of a program's goroutines.
const maxDump = 4 << 20

// dumper writes the stacks of a Go program's goroutines to memory when another process of the user
// asks for them. SIGQUIT would end the program.
type dumper struct {
	read, write *os.File // pipe: a byte in it requests a dump
	answer      *os.File
	wg          sync.WaitGroup
}

// newDumper returns nil if the main program is not written in Go, or on failure.
func newDumper(h *header) *dumper {
	if !isGoProgram() {
		return nil
	}
	fd, err := unix.MemfdCreate(memfdName+"-stacks", unix.MFD_CLOEXEC)
	if err != nil {
		return nil
	}
	d := &dumper{answer: os.NewFile(uintptr(fd), "stacks")}
	if d.read, d.write, err = os.Pipe(); err != nil {
		d.answer.Close()
		return nil
	}
	if raw, err := d.write.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { h.ask = uint32(fd) })
	}
	h.answer = uint32(fd)
	d.wg.Go(func() { d.serve(h) })
	return d
}

func isGoProgram() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-buildmode" {
			return s.Value == "exe" || s.Value == "pie"
		}
	}
	return false
}

func (d *dumper) serve(h *header) {
	asked := make([]byte, 64)
	for {
		if _, err := d.read.Read(asked); err != nil {
			return
		}
		text := make([]byte, 64<<10)
		for {
			n := runtime.Stack(text, true)
			if n < len(text) || n >= maxDump {
				text = text[:n]
				break
			}
			text = make([]byte, 4*len(text))
		}
		if d.answer.Truncate(0) == nil {
			_, _ = d.answer.WriteAt(text, 0)
		}
		release.Store(&h.answered, h.answered+1)
	}
}

func (d *dumper) close() {
	if d != nil {
		d.write.Close()
		d.read.Close()
		d.wg.Wait()
		d.answer.Close()
	}
}

// ErrNoGoroutines means that the rank's program is not Go's.
var ErrNoGoroutines = errors.New("it is no Go program")

// Goroutines asks the process for the stacks of its goroutines, as runtime.Stack formats them, and
// waits for at most limit.
func (r *Reader) Goroutines(limit time.Duration) (string, error) {
	if !r.load(r.first) {
		return "", ErrNone
	}
	before := r.page().header
	if before.ask == 0 {
		return "", ErrNoGoroutines
	}
	answer := strconv.FormatUint(uint64(before.answer), 10)
	if !strings.HasPrefix(r.process.Link("fd/"+answer), "/memfd:"+memfdName+"-stacks ") {
		return "", errors.New("its record names no memory for an answer")
	}
	pipe, err := r.process.Pipe(strconv.FormatUint(uint64(before.ask), 10))
	if err != nil {
		return "", err
	}
	defer pipe.Close()
	if _, err := pipe.Write([]byte{1}); err != nil {
		return "", err
	}
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		if !r.load(r.first) {
			return "", ErrNone
		}
		if r.page().header.answered != before.answered {
			break
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("its goroutines did not stop within %v", limit)
		}
	}
	file, err := r.process.Memory(answer, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text := make([]byte, maxDump)
	n, _ := file.ReadAt(text, 0)
	return string(text[:n]), nil
}
