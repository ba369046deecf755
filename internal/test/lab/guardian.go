package lab

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

//go:embed guardian.sh
var guardianScript string

// guardian is a shell that takes the lab down at the end of a pipe that only this process holds
// open. SIGKILL closes the pipe too.
type guardian struct {
	cmd    *exec.Cmd
	pipe   io.WriteCloser
	stderr strings.Builder
	once   sync.Once
	err    error
}

func newGuardian(dir, mark string) (*guardian, error) {
	g := &guardian{cmd: exec.Command("/bin/sh", "-c", guardianScript, "gorun-lab-guardian", mark, dir)}
	g.cmd.Dir = "/"
	g.cmd.Stderr = &g.stderr
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // out of reach of the terminal's ^C
	var err error
	if g.pipe, err = g.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the lab's guardian: %w", err)
	}
	return g, nil
}

// watch registers something that belongs to the lab. See guardian.sh for the kinds.
func (g *guardian) watch(kind, what string) error {
	_, err := fmt.Fprintln(g.pipe, kind, what)
	return err
}

// release makes the guardian take the lab down and waits for it.
func (g *guardian) release() error {
	g.once.Do(func() {
		g.err = errors.Join(g.pipe.Close(), g.cmd.Wait())
		if g.err != nil {
			g.err = fmt.Errorf("taking the lab down: %w: %s", g.err, strings.TrimSpace(g.stderr.String()))
		}
	})
	return g.err
}
