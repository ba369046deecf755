package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/workdir"
	"github.com/gorun/gorun/launcher/plan"
)

// StageCommand is the first argument that makes gorun take a folder on a host; the second is
// the nonce.
const StageCommand = "__stage"

// Work brings the folder that ranks start in to the hosts that do not see it. A nil work does nothing.
type Work struct {
	sender *workdir.Sender
	stager *Stager
	note   func(string)
	trace  func(format string, args ...any)
	waits  sync.Once // the user was told that another launch holds the copy

	mu     sync.Mutex
	copies map[int]string // by host: its copy; those that are not here see the folder itself
}

// NewWork is for a job whose programs start in the folder.
func NewWork(tree *workdir.Tree, programs []plan.Program, stager *Stager, note func(string)) (*Work, error) {
	if tree == nil {
		return nil, nil
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
	return &Work{sender: workdir.NewSender(tree, machine, stager.exe.Build), stager: stager,
		note: note, trace: stager.uploads.trace, copies: map[int]string{}}, nil
}

// CopyTo updates the folder's copy on host i, unless the host sees the folder itself.
func (w *Work) CopyTo(ctx context.Context, i int, name string, conn Host) error {
	if w == nil {
		return nil
	}
	if _, local := conn.(Local); local {
		return nil
	}
	var sent workdir.Sent
	err := w.stager.Start(ctx, conn, func(path string) (err error) {
		sent, err = w.send(ctx, name, conn, path)
		return err
	})
	tree := w.sender.Tree
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

// Dir is where ranks of host i start that start in wdir here.
func (w *Work) Dir(i int, wdir string) string {
	if w == nil {
		return wdir
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.copies[i] == "" {
		return wdir
	}
	return filepath.Join(w.copies[i], strings.TrimPrefix(wdir, w.sender.Tree.Dir))
}

// send runs the gorun at path on conn and has it take the folder.
func (w *Work) send(ctx context.Context, name string, conn Host, path string) (sent workdir.Sent, err error) {
	err = w.stager.Converse(ctx, conn, path, StageCommand, func(feed io.WriteCloser, out io.Reader) (err error) {
		sent, err = w.sender.Send(feed, out, func() {
			w.waits.Do(func() {
				w.note(name + " waits: another gorun stages " + w.sender.Tree.Dir + " there")
			})
		})
		if errors.Is(err, workdir.ErrOtherBuild) {
			err = &NoAgentError{Path: path, Err: ErrOtherBuild}
		}
		return err
	})
	return sent, err
}
