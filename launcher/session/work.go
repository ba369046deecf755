package session

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
)

// Work brings the folder that ranks start in to the hosts that do not see it, and a Python
// environment to all. A nil *Work does nothing.
type Work struct {
	senders *workdir.Senders // nil: there is no folder
	python  *Python          // nil: there is no environment
	note    func(string)
	trace   func(format string, args ...any)
	meter   relay.Meter
	meet    func(wire.Hello) []netip.Addr // the addresses at which others reach a host
	alone   bool                          // no other host has what one lacks
	waits   sync.Once                     // guards the note that another launch changes the copy

	mu      sync.Mutex
	folders map[int]string // key: index of the host; the copy, or the folder itself where the host sees it
	envs    map[int]string // key: index of the host
}

// NewWork returns the work of a job whose programs start in the folder and run in an environment.
// Each may be nil; it is nil if both are. meet returns the addresses at which other hosts, which
// pass both on, may reach one.
func NewWork(folders *workdir.Folders, python *Python, meet func(wire.Hello) []netip.Addr, programs []wire.Program,
	note func(string), trace func(format string, args ...any), meter relay.Meter) (*Work, error) {
	if folders == nil && python == nil {
		return nil, nil
	}
	w := &Work{
		python:  python,
		meet:    meet,
		note:    note,
		trace:   trace,
		meter:   meter,
		folders: map[int]string{},
		envs:    map[int]string{},
	}
	if folders == nil {
		return w, nil
	}
	for _, p := range programs {
		if sub, err := filepath.Rel(folders.Dir, string(p.Wdir)); err != nil || !filepath.IsLocal(sub) {
			return nil, fmt.Errorf("the working directory %s is not in the staged folder %s", p.Wdir, folders.Dir)
		}
	}
	machine, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find this machine's name: %w", err)
	}
	w.senders = workdir.NewSenders(folders, machine, trace, note, meter)
	return w, nil
}

// Expect says how many hosts the job has. One alone opens no port for others.
func (w *Work) Expect(hosts int) {
	if w != nil {
		w.alone = hosts < 2
	}
}

// CopyTo updates the folder's copy on the host i of a session, unless the host sees the folder
// itself, and brings the environment.
func (w *Work) CopyTo(ctx context.Context, i int, s *Session) error {
	if w == nil {
		return nil
	}
	_, local := s.Conn.(Local)
	if w.python != nil && !local {
		dir, err := w.python.bring(ctx, s, w.meetingPoints(s.Hello), w.trace, w.note, w.meter)
		if err != nil {
			return err
		}
		w.mu.Lock()
		w.envs[i] = dir
		w.mu.Unlock()
	}
	if w.senders == nil {
		return nil
	}
	sender, err := w.senders.For(s.Hello.Arch)
	if err != nil {
		return err
	}
	name := s.Host.Name
	tree := sender.Tree
	if local {
		w.setFolder(i, tree.Dir)
		return nil
	}
	var sent workdir.Sent
	err = s.during(ctx, func() (err error) {
		sent, err = sender.Send(folderAgent{relayAgent{s}}, w.meetingPoints(s.Hello), func() {
			w.waits.Do(func() { w.note(name + " waits: another gorun stages " + tree.Dir + " there") })
		})
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("stage %s: %w", tree.Dir, err)
	case sent.Shared:
		w.trace("%s: it sees %s itself", name, tree.Dir)
		sent.Dir = tree.Dir
	case sent.Files == 0:
		w.trace("%s: nothing to send: %s has the %s", name, sent.Dir, prose.Count(tree.Files, "file"))
	default:
		by := "sent"
		if sent.From != "" {
			by = sent.From + " sent"
		}
		w.trace("%s: %s %s of %d, %s, to %s", name, by, prose.Count(sent.Files, "file"), tree.Files,
			workdir.SizeText(sent.Bytes), sent.Dir)
	}
	w.setFolder(i, sent.Dir)
	return nil
}

// setFolder records where the folder is on host i.
func (w *Work) setFolder(i int, dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.folders[i] = dir
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
		if dir := w.folders[i]; dir != "" {
			p.Wdir = wire.Text(filepath.Join(dir, strings.TrimPrefix(string(p.Wdir), w.senders.Dir)))
		}
		if w.python != nil {
			dir := cmp.Or(w.envs[i], w.python.Env.Dir)
			variable := "VIRTUAL_ENV="
			if w.python.Env.Conda {
				variable = "CONDA_PREFIX="
			}
			p.Python = wire.Text(dir)
			p.Env = append(slices.Clone(p.Env), variable+dir)
		}
	}
}

// meetingPoints are the addresses at which other hosts of the job may reach a host.
func (w *Work) meetingPoints(h wire.Hello) []netip.Addr {
	if w.alone {
		return nil
	}
	return w.meet(h)
}

// folderAgent is a session as a [workdir.Agent].
type folderAgent struct{ relayAgent }

func (a folderAgent) Write(data []byte) (n int, err error) {
	for piece := range slices.Chunk(data, wire.MaxData) {
		if err := a.s.Out.sendPiece(wire.TypeFolder, piece); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}
