package workdir

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path"
	"sync"

	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/net/wire"
)

// fewBytes is the size of a pack that hosts do not pass on: their connections would take longer
// than the launcher does.
const fewBytes = 256 << 10

// Sender brings one folder to hosts. Safe for concurrent use.
type Sender struct {
	Tree  *Tree
	offer func() ([]byte, error)
	trace func(format string, args ...any)
	warn  func(string)
	meter relay.Meter

	mu    sync.Mutex
	packs map[[sha256.Size]byte]*pack // packs for the hosts of the current send
}

// NewSender returns a sender of tree, a folder of the named machine. warn gets a line about a host
// that cannot be trusted, trace the details, and meter hears of the bytes that hosts lack.
func NewSender(tree *Tree, machine string, trace func(format string, args ...any), warn func(string),
	meter relay.Meter) *Sender {
	return &Sender{
		Tree:  tree,
		trace: trace,
		warn:  warn,
		meter: meter,
		packs: map[[sha256.Size]byte]*pack{},
		offer: sync.OnceValues(func() ([]byte, error) {
			var b bytes.Buffer
			err := writeOffer(&b, tree.offer(machine))
			return b.Bytes(), err
		}),
	}
}

// Sent is the outcome of sending a folder to a host.
type Sent struct {
	Shared bool   // whether the host sees the original folder; the other fields are then zero
	Dir    string // absolute path of the copy
	Files  int    // number of files that the host received
	Bytes  int64  // bytes of those files
	From   string // last host that sent a file; "": the launcher
}

// Agent is the launcher's connection to a host's agent.
type Agent interface {
	relay.Host
	// Write sends bytes of the folder's list. It blocks while the host does not read, and returns
	// io.ErrClosedPipe once the connection is closed.
	io.Writer
}

// Send brings the folder to the host of an agent, which others may reach at addrs. Hosts that lack
// the same files pass them on, and each returns when all of them have them or have failed. It calls
// waiting each time that the agent reports another launch that changes the copy. After an error the
// connection is of no more use.
func (s *Sender) Send(to Agent, addrs []netip.Addr, waiting func()) (sent Sent, err error) {
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
	if err == nil && len(files) > 0 {
		sent, err = s.pass(to, files, addrs)
	}
	if err == nil {
		answer, err = to.Next()
	}
	if err != nil {
		return Sent{}, err
	}
	end, err := staged(answer, false)
	sent.Dir = end.Dir
	return sent, err
}

// pass brings files to a host, together with the other hosts that lack the same.
func (s *Sender) pass(to Agent, files []wire.WantedFile, addrs []netip.Addr) (sent Sent, err error) {
	p := s.join(files)
	defer s.leave(p)
	if err := p.make(); err != nil {
		to.Cancel()
		return sent, err
	}
	if p.source.Size() <= fewBytes {
		addrs = nil
	}
	d, err := p.group.Deliver(to, addrs)
	return Sent{Files: p.files, Bytes: p.bytes, From: d.From}, err
}

// pack is a tar of files that some hosts lack. It is on disk while one of them takes part.
type pack struct {
	key   [sha256.Size]byte
	users int
	make  func() error // creates the file once and sets the fields below

	source *relay.Source
	group  *relay.Group
	files  int
	bytes  int64 // bytes of the files
}

// join returns the pack of files, for a host that leaves it.
func (s *Sender) join(files []wire.WantedFile) *pack {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%d %x\n", f.Index, f.Sum)
	}
	key := [sha256.Size]byte(h.Sum(nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.packs[key]
	if p == nil {
		p = &pack{key: key}
		p.make = sync.OnceValue(func() error { return s.fill(p, files) })
		s.packs[key] = p
	}
	p.users++
	return p
}

func (s *Sender) leave(p *pack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.users--; p.users > 0 {
		return
	}
	delete(s.packs, p.key)
	if p.source != nil {
		_ = p.source.Close() // it was only read
	}
}

// fill writes the tar of a pack.
func (s *Sender) fill(p *pack, files []wire.WantedFile) (err error) {
	p.source, err = relay.Pack(func(to *os.File) (err error) {
		p.files, p.bytes, err = s.Tree.pack(to, files)
		return err
	})
	if err != nil {
		return err
	}
	p.group = relay.NewGroup(p.source, wire.Place{}, 0, s.trace, s.warn)
	p.group.Count(s.meter)
	return nil
}

// exchange runs write and returns the agent's answer, which may come earlier: an agent that fails
// does not read on.
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
	if s.Shared != shared || len(s.Dir) > wire.MaxPath || !shared && !path.IsAbs(string(s.Dir)) {
		return Sent{}, &wire.FormatError{Reason: fmt.Sprintf("the folder is staged in %.100q, which cannot be", s.Dir)}
	}
	return Sent{Shared: shared, Dir: string(s.Dir)}, nil
}

// wanted reads the rest of a list of files that begins with f. It accepts each file of the folder
// once, so that the list is bounded.
func (s *Sender) wanted(to Agent, f wire.Frame) (files []wire.WantedFile, err error) {
	for last := -1; ; {
		var w wire.Want
		if err := f.Expect(wire.TypeWant, &w); err != nil {
			return nil, err
		}
		for _, file := range w.Files {
			if file.Index <= last || file.Index >= len(s.Tree.Entries) || s.Tree.Entries[file.Index].Kind != File ||
				len(file.Sum) != 0 && len(file.Sum) != sha256.Size {
				return nil, &wire.FormatError{Reason: fmt.Sprintf("the host wants entry %d of %d", file.Index,
					len(s.Tree.Entries))}
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
