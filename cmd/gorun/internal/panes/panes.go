// Package panes shows terminals of ranks side by side in tmux.
package panes

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/files/trust"
)

// perWindow is the number of panes in one window of tmux.
const perWindow = 16

// Session is a tmux server that shows ranks of one job. It is separate from the user's own server,
// and ends with the job.
type Session struct {
	Gorun string // the path of gorun
	Job   string // id of the job
	Ranks []Rank // ranks with terminals of their own
}

// Rank is a rank and the name of its host.
type Rank struct {
	Rank int
	Host string
}

// Installed reports whether tmux is installed.
func Installed() bool {
	_, err := exec.LookPath("tmux")
	return err == nil
}

// Commands returns the commands of tmux, without the server's name, that show the ranks. It is
// pure.
func (s Session) Commands(rows, columns uint16) [][]string {
	var all [][]string
	for i, r := range s.Ranks {
		command := []string{"split-window", "-t", "gorun"}
		switch {
		case i == 0:
			command = []string{"new-session", "-d", "-s", "gorun", "-x", strconv.Itoa(int(columns)), "-y",
				strconv.Itoa(int(rows))}
		case i%perWindow == 0:
			command = []string{"new-window", "-t", "gorun:"}
		}
		all = append(all, slices.Concat(command, []string{s.Gorun, "attach", "--terminal", strconv.Itoa(r.Rank),
			s.Job}))
		if i == 0 {
			all = append(all, []string{"set-option", "-g", "pane-border-status", "top"},
				[]string{"set-option", "-g", "pane-border-format", " #{pane_title} "})
		}
		// The new pane is the active one.
		title := plain(fmt.Sprintf("rank %d on %s", r.Rank, r.Host))
		all = append(all, []string{"select-pane", "-t", "gorun", "-T", title},
			[]string{"select-layout", "-t", "gorun", "tiled"})
	}
	return append(all, []string{"select-window", "-t", "gorun:^"}, []string{"select-pane", "-t", "gorun:^.{top-left}"})
}

// plain returns a text that tmux expands to the text itself. It takes the title of a pane for a
// format, in which #(command) is what a shell's command prints.
func plain(text string) string { return strings.ReplaceAll(text, "#", "##") }

// literal returns a word that tmux takes for itself: one that ends in ; would end the command.
func literal(word string) string {
	if start, ends := strings.CutSuffix(word, ";"); ends {
		return start + `\;`
	}
	return word
}

// Open starts the server and its panes.
func (s Session) Open(ctx context.Context, rows, columns uint16) error {
	for _, command := range s.Commands(rows, columns) {
		c := s.tmux(ctx, command...)
		var said bytes.Buffer
		c.Stdout = &said
		c.Stderr = &said
		if err := c.Run(); err != nil {
			return fmt.Errorf("tmux %s: %s", command[0], cause(said.String(), err))
		}
	}
	return nil
}

// closeTime bounds the end of tmux.
const closeTime = 2 * time.Second

// Show shows the panes on a terminal until all have ended or the user leaves tmux. It ends the
// panes with ctx.
func (s Session) Show(ctx context.Context, in io.Reader, out io.Writer) error {
	c := s.tmux(ctx, "attach-session", "-t", "gorun")
	// A client whose server ends restores the terminal. A client that is killed does not.
	c.Cancel = func() error { return s.tmux(context.Background(), "kill-server").Run() }
	c.WaitDelay = closeTime
	var said bytes.Buffer
	c.Stdin = in
	c.Stdout = out
	c.Stderr = &said
	err := c.Run()
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("tmux attach-session: %s", cause(said.String(), err))
	}
	return err
}

// Close ends the server and its panes, if they are still there, and removes its socket, which tmux
// leaves.
func (s Session) Close() {
	_ = s.tmux(context.Background(), "kill-server").Run()
	_ = trust.Remove(filepath.Join(cmp.Or(os.Getenv("TMUX_TMPDIR"), "/tmp"), fmt.Sprintf("tmux-%d", os.Getuid()),
		s.server()))
}

func (s Session) server() string { return "gorun-" + s.Job }

func (s Session) tmux(ctx context.Context, words ...string) *exec.Cmd {
	argv := []string{"-L", s.server()}
	for _, word := range words {
		argv = append(argv, literal(word))
	}
	c := exec.CommandContext(ctx, "tmux", argv...)
	// tmux may run in tmux
	c.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "TMUX=") })
	return c
}

// cause returns tmux's output, or else its error.
func cause(said string, err error) string {
	if said = strings.TrimSpace(said); said != "" {
		return said
	}
	return err.Error()
}
