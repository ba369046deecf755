package settings

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/launcher"
)

// saveFiles holds the name patterns of --stdout-file and --stderr-file, by fd; "" saves nothing.
type saveFiles [3]string

// Hidden returns the streams that are saved and therefore not shown.
func (s saveFiles) Hidden() (h hidden) {
	for fd, pattern := range s {
		if pattern != "" {
			h |= 1 << (fd - 1)
		}
	}
	return h
}

// Paths returns the file of each rank and fd. Two ranks with the same file are an error. job is the scheduler's job
// number, or "".
func (s saveFiles) Paths(plan launcher.Plan, job string) (func(rank, fd int) string, error) {
	if s.Hidden() == 0 {
		return nil, nil
	}
	for fd := 1; fd <= 2; fd++ { // check the patterns also for an elastic job without hosts
		if _, err := s.Path(fd, 0, 0, "host", job); err != nil {
			return nil, err
		}
	}
	paths, owner := make([][3]string, plan.Size), map[string]int{}
	for _, h := range plan.Hosts {
		for _, r := range h.Ranks {
			for fd := 1; fd <= 2; fd++ {
				path, err := s.Path(fd, r.Rank, r.LocalRank, h.Name, job)
				if err != nil {
					return nil, err
				}
				if other, taken := owner[path]; path != "" && taken && other != r.Rank && path != os.DevNull {
					return nil, usage.Errorf("put %r (the rank) into the name, or let the shell save all of it: >FILE",
						"%s %s: ranks %d and %d would have one file", saveFlag(fd), s[fd], other, r.Rank)
				}
				owner[path], paths[r.Rank][fd] = r.Rank, path
			}
		}
	}
	return func(rank, fd int) string { return paths[rank][fd] }, nil
}

// Path returns the file of a rank's stream, or "".
func (s saveFiles) Path(fd, rank, local int, host, job string) (string, error) {
	path, err := expand(s[fd], map[byte]string{'r': strconv.Itoa(rank), 'l': strconv.Itoa(local), 'h': host, 'j': job})
	if err != nil {
		return "", usage.Errorf("%r is the rank, %h the host, %l the rank on its host, %j the job's number in Slurm; %3r is three digits", "%s %s: %w", saveFlag(fd), s[fd], err)
	}
	return path, nil
}

func saveFlag(fd int) string { return [...]string{1: "--stdout-file", 2: "--stderr-file"}[fd] }

// expand replaces %x by values, %3x zero-padded to three digits, and %% by %.
func expand(pattern string, values map[byte]string) (string, error) {
	var b strings.Builder
	for rest := pattern; rest != ""; {
		before, after, found := strings.Cut(rest, "%")
		b.WriteString(before)
		if rest = after; !found {
			break
		}
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		width, _ := strconv.Atoi(rest[:digits])
		rest = rest[digits:]
		if rest == "" || width > 20 {
			return "", fmt.Errorf("there is no %%%s", after)
		}
		value, known := values[rest[0]]
		switch {
		case rest[0] == '%':
			value = "%"
		case !known || value == "":
			return "", fmt.Errorf("there is no %%%c here", rest[0])
		}
		b.WriteString(strings.Repeat("0", max(0, width-len(value))) + value)
		rest = rest[1:]
	}
	return b.String(), nil
}

// hidden is a bit set of the ranks' streams that the terminal does not show.
type hidden uint8

// The bits of hidden.
const (
	hideStdout hidden = 1
	hideStderr hidden = 2
	hideAll           = hideStdout | hideStderr
)

func (h *hidden) Type() string { return "stream" }

func (h *hidden) String() string { return [...]string{"none", "stdout", "stderr", "all"}[*h&hideAll] }

func (h *hidden) Set(text string) error {
	for _, other := range []hidden{0, hideStdout, hideStderr, hideAll} {
		if other.String() == text {
			*h = other
			return nil
		}
	}
	return errors.New("expected stdout, stderr, all or none")
}

// Of reports whether stdout (fd 1) or stderr (fd 2) is hidden.
func (h hidden) Of(fd int) bool { return h>>(fd-1)&1 != 0 }

// Shown combines --show and --hide into a launcher.Options.Show; nil shows everything.
func Shown(ranks func(rank int) bool, h hidden) func(rank, fd int) bool {
	if ranks == nil && h == 0 {
		return nil
	}
	return func(rank, fd int) bool { return (ranks == nil || ranks(rank)) && !h.Of(fd) }
}

// stdinChoice selects the ranks that read standard input: a rank, all or none. The zero value is rank 0.
type stdinChoice string

func (c *stdinChoice) Type() string { return "rank" }

func (c *stdinChoice) String() string {
	if *c == "" {
		return "0"
	}
	return string(*c)
}

func (c *stdinChoice) Set(text string) error {
	if _, err := strconv.ParseUint(text, 10, 20); err != nil && text != "all" && text != "none" {
		return errors.New("expected a rank, all or none")
	}
	*c = stdinChoice(text)
	return nil
}

// Rank returns the launcher.Options.StdinRank for a job of size ranks.
func (c *stdinChoice) Rank(size int) (int, error) {
	switch c.String() {
	case "all":
		return launcher.StdinAll, nil
	case "none":
		return 0, nil // without input the rank does not matter
	}
	rank, err := strconv.Atoi(c.String())
	if err != nil {
		return 0, fmt.Errorf("--stdin %s: %w", c, err)
	}
	if rank >= size {
		return 0, usage.Errorf(fmt.Sprintf("this job's ranks go from 0 to %d", size-1), "--stdin %d: there is no rank %d", rank, rank)
	}
	return rank, nil
}
