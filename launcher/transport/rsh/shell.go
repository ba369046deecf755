// Package rsh reaches hosts by another program, as rsh was used: the
// program is called as PROGRAM ARGS… HOST LINE once for every command, and a POSIX shell
// or the user's login shell on that host runs LINE. ssh, rsh, and the kubexec.sh
// of the Kubernetes MPI operator are such programs.
package rsh

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/ssh"
)

// Config is how to call the program for one host.
type Config struct {
	Argv   []string // program and arguments before the host
	Host   string   // host in the program's syntax: "f1", "ada@f1"
	After  []string // arguments between the host and the command
	Notice string   // a notice for the user about this host, or ""
}

// Host is a host reached by a program. It is safe for concurrent use.
type Host struct{ config Config }

// Dial checks that the program reaches a shell on the host and passes standard input. It leaves
// nothing running. Failures are an [*UnreachableError] or a [*NoStdinError].
func Dial(ctx context.Context, c Config) (*Host, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	h := &Host{c}
	err := h.probe(ctx)
	if _, is := errors.AsType[*NoStdinError](err); is && filepath.Base(c.Argv[0]) == "kubexec.sh" {
		// The operator's script calls kubectl without -i, but does not quote the host,
		// which allows to add the option there.
		h.config.Host += " -i"
		if h.probe(ctx) == nil {
			return h, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// check rejects a host that the program would take for an option or for several words.
func (c Config) check() error {
	odd := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	if c.Host == "" || c.Host[0] == '-' || strings.ContainsFunc(c.Host, odd) {
		return fmt.Errorf("%q is not a host name", c.Host)
	}
	return nil
}

// probeScript prints $1 and the first line of standard input.
const probeScript = `IFS= read -r word; echo "$1:$word:"`

func (h *Host) probe(ctx context.Context) error {
	mark := rand.Text()[:12]
	word := rand.Text()[:12]
	stdout := prose.NewTail(wordsSize)
	stderr := prose.NewTail(wordsSize)
	err := h.Run(ctx, []string{"/bin/sh", "-c", probeScript, "gorun-probe", mark}, strings.NewReader(word+"\n"),
		stdout, stderr)
	answer, _ := stdout.End()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case strings.Contains(answer, mark+":"+word+":"):
		return nil
	case strings.Contains(answer, mark+"::"):
		return &NoStdinError{h.config.Argv[0]}
	}
	if err == nil {
		err = errors.New("no shell answered")
	}
	said, _ := stderr.End()
	argv := slices.Concat(h.config.Argv, []string{h.config.Host}, h.config.After)
	return &UnreachableError{Argv: argv, Err: err, Said: lastLines(said + "\n" + answer)}
}

// Notice returns a notice for the user about this host, or "".
func (h *Host) Notice() string { return h.config.Notice }

// Put uploads a file by commands of a shell, as [ssh.Client.Put] does. A relative path is below the
// home directory.
func (h *Host) Put(ctx context.Context, path string, mode fs.FileMode, r io.Reader) error {
	if err := ssh.PutByShell(ctx, h.Run, path, mode, r); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// BySSH reports whether the program is ssh, which sets SSH_CONNECTION on the host.
func (h *Host) BySSH() bool { return filepath.Base(h.config.Argv[0]) == "ssh" }

// Close does nothing: each command has its own program.
func (h *Host) Close() error { return nil }

// args returns the program's arguments for a command. A command with a relative path starts in the
// home directory, as over SSH.
func (h *Host) args(argv []string) ([]string, error) {
	if len(argv) > 0 && !strings.HasPrefix(argv[0], "/") {
		argv = append([]string{"/bin/sh", "-c", `cd && exec "$0" "$@"`}, argv...)
	}
	line, err := ssh.Quote(argv)
	if err != nil {
		return nil, err
	}
	return slices.Concat(h.config.Argv[1:], []string{h.config.Host}, h.config.After, []string{line}), nil
}

// wordsSize is how much of a program's output is kept for an error.
const wordsSize = 4 << 10
