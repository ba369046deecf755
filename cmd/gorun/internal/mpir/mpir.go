// Package mpir shows the processes of a job to debuggers of whole jobs, such as TotalView and DDT.
// They read MPIR_proctable, a variable of C, in a process of this machine: gorun-mpir, which runs
// beside gorun for as long as the job.
package mpir

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gorun/gorun/cmd/gorun/internal/installed"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

// Process is the process of a rank.
type Process struct {
	Host    string
	Program string // its path on the host, as far as known
	PID     int
}

// Show starts gorun-mpir with the ranks of a plan, or returns nil if it is not installed beside
// gorun. processes returns the process ids of ranks of one host.
func Show(ctx context.Context, p launcher.Plan, programs []launcher.Program,
	processes func(ctx context.Context, ranks []int) (map[int]int, error)) (*Server, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path, err := installed.Path(exe, "gorun-mpir")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return Start(ctx, path, Rows(ctx, p, programs, processes))
}

// Rows returns the processes of a plan's ranks, in rank order. A rank that has ended, or whose host
// does not answer, has process 0.
func Rows(ctx context.Context, p launcher.Plan, programs []launcher.Program,
	processes func(ctx context.Context, ranks []int) (map[int]int, error)) []Process {
	all := make([]Process, p.Size)
	for _, h := range p.Hosts {
		ranks := h.Numbers()
		if ranks == nil {
			continue
		}
		pids, _ := processes(ctx, ranks)
		for _, rank := range ranks {
			all[rank] = Process{Host: h.Name, Program: PathOf(plan.ProgramOf(rank, programs)), PID: max(pids[rank], 0)}
		}
	}
	return all
}

// PathOf returns the path of a program: relative to its directory, or found in PATH on this
// machine.
func PathOf(p launcher.Program) string {
	name := p.Argv[0]
	switch {
	case filepath.IsAbs(name):
	case strings.Contains(name, "/"):
		name = filepath.Join(string(p.Wdir), name)
	default:
		if found, err := exec.LookPath(name); err == nil {
			name = found
		}
	}
	return name
}

// Table encodes processes, in the order of ranks, for gorun-mpir.
func Table(processes []Process) []byte {
	var b bytes.Buffer
	word := func(text string) {
		b.WriteString(strings.ReplaceAll(text[:min(len(text), maxWord)], "\x00", "?"))
		b.WriteByte(0)
	}
	for _, p := range processes {
		if p.Host == "" {
			p.Host = "?" // an empty host ends the table
		}
		word(p.Host)
		word(p.Program)
		word(strconv.Itoa(p.PID))
	}
	b.WriteByte(0)
	return b.Bytes()
}

// maxWord bounds the bytes of a word for gorun-mpir.
const maxWord = 4000

// Server is a running gorun-mpir.
type Server struct {
	cmd   *exec.Cmd
	input io.Closer
}

// Start starts the program at a path, and returns when a debugger can read the table. The program
// ends with ctx, or when Close is called.
func Start(ctx context.Context, path string, processes []Process) (*Server, error) {
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = []string{} // debuggers show the environment and need none
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start gorun-mpir: %w", err)
	}
	s := &Server{cmd, input}
	_, err = input.Write(Table(processes))
	if err == nil {
		_, err = bufio.NewReader(output).ReadString('\n')
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("show the processes by gorun-mpir: %w", err)
	}
	return s, nil
}

// PID returns the process to which a debugger attaches.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Close ends the program.
func (s *Server) Close() {
	s.input.Close()
	_ = s.cmd.Wait() // the exit status does not matter: the table was shown
}
