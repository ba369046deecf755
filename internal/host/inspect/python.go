package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/host/process"
	"github.com/gorun/gorun/internal/sight/pyframes"
	"github.com/gorun/gorun/internal/sight/stacks"
)

// isPython reports whether the program is a Python interpreter.
func (s *subject) isPython() bool {
	return strings.HasPrefix(filepath.Base(s.own.Link("exe")), "python")
}

// faultsName begins the name of the memory to which a Python process writes its stacks. The number
// of the signal that asks for it follows. The Python package makes it.
const faultsName = "/memfd:gorun-faults."

// faults finds the descriptor and signal of such a process.
func (s *subject) faults() (fd string, signal syscall.Signal, found bool) {
	for _, f := range s.own.Names("fd") {
		number, is := strings.CutPrefix(strings.TrimSuffix(s.own.Link("fd/"+f), " (deleted)"), faultsName)
		n, err := strconv.Atoi(number)
		if !is || err != nil || n < 34 || n > 64 { // the real-time signals
			continue
		}
		return f, syscall.Signal(n), s.catches(n)
	}
	return "", 0, false
}

// catches reports whether the process handles a signal. One that it does not handle would end it.
func (s *subject) catches(signal int) bool {
	text, _ := s.own.Text("status")
	return process.Catches(text, signal)
}

const (
	faultsLimit = 1500 * time.Millisecond // a busy machine may let a thread wait for its turn
	faultsQuiet = 15 * time.Millisecond   // silence that ends a dump; faulthandler does not mark its end
	maxFaults   = 1 << 20
)

// askFaults makes the process's faulthandler write its stacks. That works in signal context,
// whoever holds the interpreter's lock.
func (s *subject) askFaults(ctx context.Context, fd string, signal syscall.Signal) ([]stacks.Thread, error) {
	file, err := s.own.Memory(fd, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := file.Truncate(0); err != nil { // the process appends
		return nil, err
	}
	if err := s.own.Signal(signal); err != nil {
		return nil, err
	}
	text := make([]byte, maxFaults)
	last := time.Now()
	end := time.Now().Add(faultsLimit)
	for n := 0; ; time.Sleep(time.Millisecond) {
		size, _ := file.ReadAt(text, 0)
		now := time.Now()
		if size > n {
			n = size
			last = now
		}
		if n > 0 && text[n-1] == '\n' && now.Sub(last) > faultsQuiet {
			_ = file.Truncate(0)
			return parseFaults(string(text[:n])), nil
		}
		if now.After(end) || ctx.Err() != nil {
			return nil, errors.New("it did not handle the signal: it is stopped, or waits in the kernel")
		}
	}
}

// parseFaults parses the output of faulthandler. The thread that it interrupted comes first.
func parseFaults(text string) (threads []stacks.Thread) {
	frame := regexp.MustCompile(`^  File "(.*)", line (\d+|\?\?\?) in (.*)$`)
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasSuffix(line, "(most recent call first):") || strings.HasPrefix(line, "Stack (most recent") {
			name := strings.TrimSpace(strings.TrimSuffix(line, "(most recent call first):"))
			threads = append(threads, stacks.Thread{Name: name})
			continue
		}
		if m := frame.FindStringSubmatch(line); m != nil && len(threads) > 0 {
			number, _ := strconv.Atoi(m[2])
			t := &threads[len(threads)-1]
			t.Frames = append(t.Frames, stacks.Frame{Func: m[3], File: m[1], Line: number})
		}
	}
	main := len(threads) - 1 // the oldest
	for i, t := range threads {
		if strings.HasPrefix(t.Name, "Current thread") {
			main = i
		}
	}
	return first(threads, main)
}

// first moves threads[i] to the front.
func first(threads []stacks.Thread, i int) []stacks.Thread {
	if i <= 0 || i >= len(threads) {
		return threads
	}
	main := threads[i]
	return slices.Insert(slices.Delete(threads, i, i+1), 0, main)
}

// frames reads the stacks of Python from the process's memory.
func (s *subject) frames() ([]stacks.Thread, error) {
	var images []uint64
	for _, m := range s.mappings() {
		if m.offset == 0 && strings.HasPrefix(m.mode, "r") {
			images = append(images, m.from)
		}
	}
	space, err := s.own.Space()
	if errors.Is(err, os.ErrPermission) {
		return nil, errUntraceable
	}
	if err != nil {
		return nil, err
	}
	defer space.Close()
	return pyframes.Frames(space, images)
}

// pySpy reads the stacks of a Python process by py-spy.
func (s *subject) pySpy(ctx context.Context, path string) ([]stacks.Thread, error) {
	out, err := s.tool(ctx, path, "dump", "--json", "--pid", strconv.Itoa(s.PID))
	if err != nil {
		return nil, err
	}
	return parsePySpy(out, s.PID)
}

func parsePySpy(out []byte, pid int) (threads []stacks.Thread, err error) {
	var traces []struct {
		Name   string `json:"thread_name"`
		ID     int    `json:"os_thread_id"`
		Frames []struct {
			Name, Filename string
			Line           int
		}
	}
	if err := json.Unmarshal(out, &traces); err != nil {
		return nil, fmt.Errorf("its answer is not understood: %w", err)
	}
	main := 0
	for i, t := range traces {
		if t.ID == pid || t.Name == "MainThread" {
			main = i
		}
		thread := stacks.Thread{Name: t.Name}
		for _, f := range t.Frames {
			thread.Frames = append(thread.Frames, stacks.Frame{Func: f.Name, File: f.Filename, Line: f.Line})
		}
		threads = append(threads, thread)
	}
	return first(threads, main), nil
}
