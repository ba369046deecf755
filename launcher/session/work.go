package session

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/wire"
	"github.com/gorun/gorun/internal/workdir"
	"github.com/gorun/gorun/launcher/plan"
)

// Work brings the folder that ranks start in to the hosts that do not see it, and a Python environment to all. A nil *Work does nothing.
type Work struct {
	sender *workdir.Sender // nil: there is no folder
	python *Python         // nil: there is no environment
	note   func(string)
	trace  func(format string, args ...any)
	waits  sync.Once // for the note that another launch changes the copy

	mu     sync.Mutex
	copies map[int]string // by index of the host; hosts that see the folder have none
	envs   map[int]string // by index of the host
}

// NewWork returns the work of a job whose programs start in the folder and run in an environment. Each may be nil; it is nil if both are.
func NewWork(tree *workdir.Tree, python *Python, programs []plan.Program, note func(string), trace func(format string, args ...any)) (*Work, error) {
	if tree == nil && python == nil {
		return nil, nil
	}
	w := &Work{python: python, note: note, trace: trace, copies: map[int]string{}, envs: map[int]string{}}
	if tree == nil {
		return w, nil
	}
	for _, p := range programs {
		if sub, err := filepath.Rel(tree.Dir, p.Wdir); err != nil || !filepath.IsLocal(sub) {
			return nil, fmt.Errorf("the working directory %s is not in the staged folder %s", p.Wdir, tree.Dir)
		}
	}
	machine, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find this machine's name: %w", err)
	}
	w.sender = workdir.NewSender(tree, machine)
	return w, nil
}

// CopyTo updates the folder's copy on the host i of a session, unless the host sees the folder itself, and brings the environment.
func (w *Work) CopyTo(ctx context.Context, i int, s *Session) error {
	if w == nil {
		return nil
	}
	if _, local := s.Conn.(Local); local {
		return nil
	}
	if w.python != nil {
		dir, err := w.python.bring(ctx, s, w.trace, w.note)
		if err != nil {
			return err
		}
		w.mu.Lock()
		w.envs[i] = dir
		w.mu.Unlock()
	}
	if w.sender == nil {
		return nil
	}
	name, tree := s.Host.Name, w.sender.Tree
	var sent workdir.Sent
	err := s.talk(ctx, func() (err error) {
		sent, err = w.sender.Send(folderAgent{s}, func() {
			w.waits.Do(func() { w.note(name + " waits: another gorun stages " + tree.Dir + " there") })
		})
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("stage %s: %w", tree.Dir, err)
	case sent.Shared:
		w.trace("%s: it sees %s itself", name, tree.Dir)
		return nil
	case sent.Files == 0:
		w.trace("%s: nothing to send: %s has the %s", name, sent.Dir, prose.Count(tree.Files, "file"))
	default:
		w.trace("%s: sent %s of %d, %s, to %s", name, prose.Count(sent.Files, "file"), tree.Files, workdir.SizeText(sent.Bytes), sent.Dir)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.copies[i] = sent.Dir
	return nil
}

// Place changes programs so that they run in what host i has.
func (w *Work) Place(i int, programs []wire.Program) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range programs {
		p := &programs[n]
		if dir := w.copies[i]; dir != "" {
			p.Wdir = []byte(filepath.Join(dir, strings.TrimPrefix(string(p.Wdir), w.sender.Tree.Dir)))
		}
		if w.python != nil {
			dir, variable := cmp.Or(w.envs[i], w.python.Env.Dir), "VIRTUAL_ENV="
			if w.python.Env.Conda {
				variable = "CONDA_PREFIX="
			}
			p.Python, p.Env = []byte(dir), append(slices.Clone(p.Env), []byte(variable+dir))
		}
	}
}

// folderAgent is a session as a [workdir.Agent].
type folderAgent struct{ s *Session }

func (a folderAgent) Write(data []byte) (n int, err error) {
	for piece := range slices.Chunk(data, wire.MaxData) {
		if err := a.s.Out.sendPiece(wire.TypeFolder, piece); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

func (a folderAgent) Next() (wire.Frame, error) { return a.s.answer() }
func (a folderAgent) Cancel()                   { a.s.Cancel() }
