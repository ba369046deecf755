package workdir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
)

// ErrOtherBuild is the cause when another gorun answered on the host.
var ErrOtherBuild = errors.New("another build of gorun is there")

// Sender brings one folder to hosts. Safe for concurrent use.
type Sender struct {
	Tree  *Tree
	Build string // of this executable; the host's must be equal
	offer func() ([]byte, error)
}

// NewSender returns a sender of tree, a folder of the named machine.
func NewSender(tree *Tree, machine, build string) *Sender {
	return &Sender{Tree: tree, Build: build, offer: sync.OnceValues(func() ([]byte, error) {
		var b bytes.Buffer
		err := writeOffer(&b, tree.offer(machine))
		return b.Bytes(), err
	})}
}

// Sent is what became of a folder on a host.
type Sent struct {
	Shared  bool   // the host sees the folder itself; the rest is empty
	Dir     string // the copy, absolute
	Files   int    // that were sent
	Bytes   int64  // in them
	Removed int    // of what had been staged before
}

// Send plays the launcher's half on the pipes of a command that runs Serve, whose preamble has been read. waiting is called
// when another launch has the copy. The caller bounds its time.
func (s *Sender) Send(in io.Writer, out io.Reader, waiting func()) (Sent, error) {
	// A line for every entry at most, with an index and a sum.
	lines := json.NewDecoder(io.LimitReader(out, int64(1<<20+128*len(s.Tree.Entries))))
	hello, err := next(lines)
	if err != nil {
		return Sent{}, err
	}
	if hello.Build != s.Build {
		return Sent{}, ErrOtherBuild
	}
	offer, err := s.offer()
	if err != nil {
		return Sent{}, err
	}
	if _, err := in.Write(offer); err != nil {
		return Sent{}, answered(lines, err)
	}
	answer, err := next(lines)
	for err == nil && answer.Waiting {
		waiting()
		answer, err = next(lines)
	}
	switch {
	case err != nil:
		return Sent{}, err
	case answer.Shared:
		return Sent{Shared: true}, nil
	case answer.Want == nil:
		return Sent{}, errors.New("the host did not say what it lacks")
	}
	return s.send(in, lines, answer.Want.Files)
}

// send sends the files that the host wants.
func (s *Sender) send(in io.Writer, lines *json.Decoder, files []want) (sent Sent, err error) {
	for _, f := range files {
		if f.Index < 0 || f.Index >= len(s.Tree.Entries) || s.Tree.Entries[f.Index].Kind != File {
			return Sent{}, fmt.Errorf("the host wants entry %d of %d", f.Index, len(s.Tree.Entries))
		}
	}
	if len(files) > 0 {
		if sent.Files, sent.Bytes, err = s.Tree.pack(in, files); err != nil {
			return Sent{}, answered(lines, err)
		}
	}
	end, err := next(lines)
	if err != nil {
		return Sent{}, err
	}
	if end.Done == nil || !path.IsAbs(string(end.Done.Dir)) {
		return Sent{}, errors.New("the host did not say where the copy is")
	}
	sent.Dir, sent.Removed = string(end.Done.Dir), end.Done.Removed
	return sent, nil
}

// next reads a line; one that tells of an error is one.
func next(lines *json.Decoder) (r reply, err error) {
	if err := lines.Decode(&r); err != nil {
		return r, fmt.Errorf("wait for the host's answer: %w", err)
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

// answered prefers what the host says to the broken pipe that its end has made.
func answered(lines *json.Decoder, err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		if _, told := next(lines); told != nil {
			return told
		}
	}
	return err
}
