package workdir

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"

	"github.com/gorun/gorun/internal/wire"
)

// Sender brings one folder to hosts. Safe for concurrent use.
type Sender struct {
	Tree  *Tree
	offer func() ([]byte, error)
}

// NewSender returns a sender of tree, a folder of the named machine.
func NewSender(tree *Tree, machine string) *Sender {
	return &Sender{Tree: tree, offer: sync.OnceValues(func() ([]byte, error) {
		var b bytes.Buffer
		err := writeOffer(&b, tree.offer(machine))
		return b.Bytes(), err
	})}
}

// Sent is the outcome of sending a folder to a host.
type Sent struct {
	Shared bool   // the host sees the folder itself; the other fields are zero
	Dir    string // the copy, absolute
	Files  int    // sent files
	Bytes  int64  // in them
}

// Agent is the launcher's connection to a host's agent.
type Agent interface {
	// Write sends bytes of the folder. It blocks while the host does not read, and returns io.ErrClosedPipe
	// once the connection is closed.
	io.Writer
	// Next returns the agent's next frame. An error that the agent reports is an error.
	Next() (wire.Frame, error)
	// Cancel closes the connection, which ends blocked calls.
	Cancel()
}

// Send brings the folder to the host of an agent. It calls waiting each time that the agent reports another
// launch that changes the copy. After an error the connection is of no more use.
func (s *Sender) Send(to Agent, waiting func()) (sent Sent, err error) {
	offer, err := s.offer()
	if err != nil {
		return Sent{}, err
	}
	answer, err := exchange(to, func() error {
		_, err := to.Write(offer)
		return err
	})
	for err == nil && answer.Type == wire.TypeWaiting {
		waiting()
		answer, err = to.Next()
	}
	if err != nil {
		return Sent{}, err
	}
	if answer.Type == wire.TypeStaged {
		return staged(answer, true)
	}
	files, err := s.wanted(to, answer)
	if err != nil {
		return Sent{}, err
	}
	var count int
	var size int64
	answer, err = exchange(to, func() (err error) {
		if len(files) > 0 {
			count, size, err = s.Tree.pack(to, files)
		}
		return err
	})
	if err != nil {
		return Sent{}, err
	}
	sent, err = staged(answer, false)
	sent.Files, sent.Bytes = count, size
	return sent, err
}

// exchange runs write and returns the agent's answer, which may come earlier: an agent that fails does not read on.
func exchange(to Agent, write func() error) (answer wire.Frame, err error) {
	wrote := make(chan error, 1)
	go func() {
		err := write()
		if errors.Is(err, io.ErrClosedPipe) {
			err = nil // the agent's answer, or the end of its frames, says why
		}
		if err != nil {
			to.Cancel()
		}
		wrote <- err
	}()
	if answer, err = to.Next(); err != nil {
		to.Cancel()
	}
	if wrong := <-wrote; wrong != nil {
		return answer, wrong
	}
	return answer, err
}

// staged reads the agent's last answer.
func staged(f wire.Frame, shared bool) (Sent, error) {
	var s wire.Staged
	if err := f.Expect(wire.TypeStaged, &s); err != nil {
		return Sent{}, err
	}
	if s.Shared != shared || !shared && !path.IsAbs(string(s.Dir)) {
		return Sent{}, &wire.FormatError{Reason: fmt.Sprintf("the folder is staged in %.100q, which cannot be", s.Dir)}
	}
	return Sent{Shared: shared, Dir: string(s.Dir)}, nil
}

// wanted reads the rest of a list of files that begins with f. It accepts each file of the folder once, so that the list is bounded.
func (s *Sender) wanted(to Agent, f wire.Frame) (files []wire.WantedFile, err error) {
	for last := -1; ; {
		var w wire.Want
		if err := f.Expect(wire.TypeWant, &w); err != nil {
			return nil, err
		}
		for _, file := range w.Files {
			if file.Index <= last || file.Index >= len(s.Tree.Entries) || s.Tree.Entries[file.Index].Kind != File || len(file.Sum) != 0 && len(file.Sum) != sha256.Size {
				return nil, &wire.FormatError{Reason: fmt.Sprintf("the host wants entry %d of %d", file.Index, len(s.Tree.Entries))}
			}
			last = file.Index
		}
		files = append(files, w.Files...)
		if !w.More {
			return files, nil
		}
		if f, err = to.Next(); err != nil {
			return nil, err
		}
	}
}
