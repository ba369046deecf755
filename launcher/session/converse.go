package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/wire"
)

// Converse runs a command of the gorun at path on conn, and has talk speak with it behind its preamble. The command's end
// is waited for.
func (s *Stager) Converse(ctx context.Context, conn Host, path, command string, talk func(feed io.WriteCloser, out io.Reader) error) error {
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
		err := conn.Run(ctx, onHost(conn, path, command, nonce), in, out, stderr)
		in.CloseWithError(io.ErrClosedPipe)
		out.close()
		ended <- err
	}()
	timer := time.AfterFunc(s.hello, func() { cancel(&silenceError{s.hello}) })
	_, err := wire.FindPreamble(out, nonce)
	if timer.Stop(); err != nil {
		feed.Close()
		cancel(err)
		ran := <-ended
		return &NoAgentError{Path: path, stderr: stderr.String(), Err: explain(err, ran)}
	}
	err = talk(feed, out)
	feed.Close()
	if err != nil {
		// The end of its stdin ends the command, if anything does.
		late := time.AfterFunc(partingTime, func() { cancel(err) })
		defer late.Stop()
	}
	ran := <-ended
	var status interface{ ExitCode() int }
	if err != nil && ran != nil && (!errors.As(ran, &status) || errors.Is(err, io.EOF)) {
		return ran // more than the silence that came of it
	}
	return err
}

// mailbox is an unbounded pipe: writes never block.
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

// mailboxSize bounds unread bytes, far above what any host sends.
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
