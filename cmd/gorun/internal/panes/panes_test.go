package panes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func TestCommands(t *testing.T) {
	s := Session{Gorun: "/bin/gorun", Job: "g7k2"}
	for rank := range 17 {
		s.Ranks = append(s.Ranks, Rank{rank, fmt.Sprintf("f%d", rank/8)})
	}
	var all []string
	made := map[string]int{}
	for _, c := range s.Commands(24, 80) {
		all = append(all, strings.Join(c, " "))
		made[c[0]]++
	}
	for _, want := range []string{
		"new-session -d -s gorun -x 80 -y 24 /bin/gorun attach --terminal 0 g7k2",
		"split-window -t gorun /bin/gorun attach --terminal 15 g7k2",
		"new-window -t gorun: /bin/gorun attach --terminal 16 g7k2",
		"select-pane -t gorun -T rank 9 on f1",
	} {
		check.That(t, strings.Contains(strings.Join(all, "\n")+"\n", want+"\n"),
			"no %q in\n%s", want, strings.Join(all, "\n"))
	}
	check.That(t, made["new-session"] == 1 && made["new-window"] == 1 && made["split-window"] == 15, "%v", made)
}

// Whatever a host is called, tmux runs no command of its name: the pane's title is the name.
func TestNamesAreNoCommands(t *testing.T) {
	lab.Need(t, "tmux")
	dir := t.TempDir()
	t.Setenv("TMUX_TMPDIR", dir)
	t.Setenv("HOME", dir) // no configuration
	program := filepath.Join(dir, "gorun;")
	must.OK(t, os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700))
	const name = `#(echo run) #{pid} %H $HOME ;`
	s := Session{Gorun: program, Job: "names", Ranks: []Rank{{0, name}, {1, "f1"}}}
	t.Cleanup(s.Close)
	must.OK(t, s.Open(t.Context(), 24, 80))
	titles := must.Get(s.tmux(t.Context(), "list-panes", "-t", "gorun", "-F", "#{pane_title}").Output())(t)
	check.Equal(t, string(titles), "rank 0 on "+name+"\nrank 1 on f1\n")
}

// The socket that tmux leaves is removed through no link of another user's.
func TestSocketIsRemovedThroughNoLink(t *testing.T) {
	lab.NeedRoot(t)
	dir := t.TempDir()
	t.Setenv("TMUX_TMPDIR", dir)
	s := Session{Job: "links"}
	own := filepath.Join(dir, "own")
	file := filepath.Join(own, s.server())
	link := filepath.Join(dir, fmt.Sprintf("tmux-%d", os.Getuid()))
	must.OK(t, errors.Join(os.Mkdir(own, 0o700), os.WriteFile(file, nil, 0o600), os.Symlink(own, link),
		os.Lchown(link, 65533, 65533)))
	s.Close()
	must.Get(os.Stat(file))(t)
}
