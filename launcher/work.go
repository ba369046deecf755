package launcher

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/wire"
	"github.com/gorun/gorun/internal/workdir"
)

// StageCommand is the first argument that makes gorun take a folder on a host; the second is
// the nonce.
const StageCommand = "__stage"

// work brings the folder that ranks start in to the hosts that do not see it. A nil work does nothing.
type work struct {
	sender *workdir.Sender
	stager *stager
	note   func(string)
	trace  func(format string, args ...any)
	waits  sync.Once // the user was told that another launch has the copy

	mu     sync.Mutex
	copies map[int]string // by host: its copy; those that are not here see the folder itself
}

// newWork is for a job whose programs start in the folder.
func newWork(opts Options, stager *stager) (*work, error) {
	if opts.Work == nil {
		return nil, nil
	}
	for _, p := range opts.Programs {
		if sub, err := filepath.Rel(opts.Work.Dir, p.Wdir); err != nil || !filepath.IsLocal(sub) {
			return nil, fmt.Errorf("the working directory %s is not in the staged folder %s", p.Wdir, opts.Work.Dir)
		}
	}
	machine, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find this machine's name: %w", err)
	}
	return &work{sender: workdir.NewSender(opts.Work, machine, opts.Exe.Build), stager: stager,
		note: opts.Note, trace: opts.Trace, copies: map[int]string{}}, nil
}

// bring makes the folder's copy on host i what the folder is, unless the host sees the folder itself.
func (w *work) bring(ctx context.Context, i int, name string, conn Host) error {
	if w == nil {
		return nil
	}
	if _, local := conn.(Local); local {
		return nil
	}
	var sent workdir.Sent
	err := w.stager.start(ctx, conn, func(path string) (err error) {
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
		w.trace("%s: nothing to send: %s has the %s", name, sent.Dir, count(tree.Files, "file"))
	default:
		w.trace("%s: sent %s of %d, %s, to %s", name, count(sent.Files, "file"), tree.Files, workdir.SizeText(sent.Bytes), sent.Dir)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.copies[i] = sent.Dir
	return nil
}

// dir is where ranks of host i start that start in wdir here.
func (w *work) dir(i int, wdir string) string {
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
func (w *work) send(ctx context.Context, name string, conn Host, path string) (sent workdir.Sent, err error) {
	var raw [16]byte
	rand.Read(raw[:])
	nonce := hex.EncodeToString(raw[:])
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	in, feed := io.Pipe()
	// The host speaks a little, at any time: it must not wait for a reader that waits for the host.
	out, stderr := newMailbox(), &tail{}
	ended := make(chan error, 1)
	go func() {
		err := conn.Run(ctx, onHost(conn, path, StageCommand, nonce), in, out, stderr)
		in.CloseWithError(io.ErrClosedPipe)
		out.close()
		ended <- err
	}()
	timer := time.AfterFunc(w.stager.hello, func() { cancel(&silenceError{w.stager.hello}) })
	_, err = wire.FindPreamble(out, nonce)
	if timer.Stop(); err != nil {
		feed.Close()
		cancel(err)
		ran := <-ended
		return sent, &noAgentError{path: path, stderr: stderr.String(), err: explain(err, ran)}
	}
	sent, err = w.sender.Send(feed, out, func() {
		w.waits.Do(func() {
			w.note(name + " waits: another gorun stages " + w.sender.Tree.Dir + " there")
		})
	})
	feed.Close()
	if errors.Is(err, workdir.ErrOtherBuild) {
		err = &noAgentError{path: path, err: errOtherBuild}
	}
	if err != nil {
		// The end of its stdin ends the command, if anything does.
		late := time.AfterFunc(partingTime, func() { cancel(err) })
		defer late.Stop()
	}
	ran := <-ended
	var status interface{ ExitCode() int }
	if err != nil && ran != nil && (!errors.As(ran, &status) || errors.Is(err, io.EOF)) {
		return sent, ran // more than the silence that came of it
	}
	return sent, err
}

// mailbox holds what was written until it is read. Nobody waits to write.
type mailbox struct {
	mu     sync.Mutex
	news   sync.Cond
	data   []byte
	closed bool
}

func newMailbox() *mailbox {
	m := &mailbox{}
	m.news.L = &m.mu
	return m
}

// mailboxSize is more than any host says unread.
const mailboxSize = 256 << 20

func (m *mailbox) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.data)+len(p) > mailboxSize {
		return 0, errors.New("the host says too much")
	}
	m.data = append(m.data, p...)
	m.news.Signal()
	return len(p), nil
}

// Read waits for something to read, or the end.
func (m *mailbox) Read(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.data) == 0 && !m.closed {
		m.news.Wait()
	}
	if len(m.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, m.data)
	m.data = m.data[n:]
	return n, nil
}

func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.news.Signal()
}
