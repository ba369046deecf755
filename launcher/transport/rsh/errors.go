package rsh

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/ssh"
)

// UnreachableError reports that the program did not reach a shell on the host.
type UnreachableError struct {
	Argv []string // program, its arguments and the host
	Err  error    // exit of the program
	Said string   // last output of the program on one line, safe for a terminal
}

func (e *UnreachableError) Error() string {
	if e.Said == "" {
		return fmt.Sprintf("not reached: %v", e.Err)
	}
	return fmt.Sprintf("not reached: %v: %s", e.Err, e.Said)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// Hint returns why the program did not start, or how to try it by hand.
func (e *UnreachableError) Hint() string {
	var inner interface{ Hint() string }
	if errors.As(e.Err, &inner) {
		return inner.Hint()
	}
	line, err := ssh.Quote(e.Argv)
	if err != nil {
		line = e.Argv[0]
	}
	return "this must print a name: " + line + " hostname"
}

// Temporary reports whether the host may still be coming up.
func (e *UnreachableError) Temporary() bool {
	signs := []string{
		// ssh and rsh
		"Connection refused", "Could not resolve", "Name or service not known", "Temporary failure in name resolution",
		"does not have a host assigned", "container not found", "ContainerCreating", // kubectl
	}
	return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(e.Said, sign) })
}

// KilledError reports that the program was killed on this machine. The state of the remote command
// is unknown.
type KilledError struct {
	Program string
	Host    string
	Signal  syscall.Signal
}

func (e *KilledError) Error() string {
	return fmt.Sprintf("the %s to %s was killed by signal %d (%s) on this machine", e.Program, e.Host, int(e.Signal),
		unix.SignalName(e.Signal))
}

// NoStdinError reports a program that does not pass standard input to remote commands, which the
// agent needs.
type NoStdinError struct{ Program string }

func (e *NoStdinError) Error() string {
	return fmt.Sprintf("%s runs commands there, but does not pass standard input on", filepath.Base(e.Program))
}

// Hint returns what the program must do.
func (e *NoStdinError) Hint() string {
	return "kubectl exec, docker exec and their like do so with -i; ssh must not have -n"
}

// lastLines returns the end of a program's output on one line, safe for a terminal, without the
// trace of set -x, and without kubectl's log unless there is nothing else.
func lastLines(text string) string {
	const most = 3
	logged := regexp.MustCompile(`^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+:\d+\] `)
	var lines, log []string
	for line := range strings.Lines(text) {
		switch line = strings.TrimSpace(line); {
		case line == "" || strings.HasPrefix(line, "+ "):
		case logged.MatchString(line):
			log = append(log, line)
		default:
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		lines = log[len(log)-min(len(log), 1):]
	}
	return prose.Printable(strings.Join(lines[max(0, len(lines)-most):], "; "))
}
