package workdir

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/wire"
)

// Options say how a host's half was started.
type Options struct {
	Nonce string // from the command line; marks the start of what counts
	Build string // content id of this executable
	Home  string // the user's home directory there, absolute
}

const (
	lockPoll  = 50 * time.Millisecond
	waitShown = time.Second // between lines that tell of waiting; one that nobody reads ends the process
)

// Serve is the host's half: it says what the copy lacks of the offer on in, and puts it there. The
// launcher is told of an error, too.
func Serve(in io.Reader, out io.Writer, opts Options) error {
	if _, err := out.Write(wire.Preamble(opts.Nonce)); err != nil {
		return err
	}
	s := server{in: member{from: bufio.NewReader(in)}, out: json.NewEncoder(out)}
	if err := s.out.Encode(reply{Build: opts.Build}); err != nil {
		return err
	}
	err := s.serve(filepath.Join(opts.Home, ".cache/gorun/work"))
	if err != nil {
		err = trouble(err)
		_ = s.out.Encode(reply{Error: err.Error()})
	}
	return err
}

type server struct {
	in  member
	out *json.Encoder
}

func (s *server) serve(base string) error {
	first, err := s.in.next()
	if err != nil {
		return fmt.Errorf("read the offer: %w", err)
	}
	o, err := readOffer(first)
	if err != nil {
		return fmt.Errorf("read the offer: %w", err)
	}
	if len(o.Proofs) > 0 && same(o.Proofs, o.Scanned, lookIn(string(o.Dir))) {
		return s.out.Encode(reply{Shared: true})
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return err
	}
	if err := trusted(base); err != nil {
		return err
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer root.Close()
	c, err := s.take(root, o.Copy)
	if err != nil {
		return err
	}
	defer c.close()
	return s.update(c, o)
}

// take waits for the copy's lock.
func (s *server) take(base *os.Root, name string) (*target, error) {
	lock, err := base.OpenFile(name+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	c := &target{base: base, name: name, lock: lock, real: map[string]bool{}}
	for shown := time.Now(); ; time.Sleep(lockPoll) {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			lock.Close()
			return nil, fmt.Errorf("lock %s: %w", filepath.Join(base.Name(), lock.Name()), err)
		}
		if time.Since(shown) < waitShown {
			continue
		}
		shown = time.Now()
		if err := s.out.Encode(reply{Waiting: true}); err != nil {
			lock.Close()
			return nil, err
		}
	}
}

// update makes the copy like the offer.
func (s *server) update(c *target, o Offer) error {
	// An earlier launch may have been cut off.
	if err := c.base.RemoveAll(c.fresh("")); err != nil {
		return err
	}
	for _, dir := range []string{c.fresh(""), c.name} {
		if err := c.base.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	old := c.records()
	changes := compare(o.Entries, old, c.staged)
	removed, err := c.remove(changes.remove)
	if err != nil {
		return err
	}
	if err := c.frame(o.Entries); err != nil {
		return err
	}
	if err := s.out.Encode(reply{Want: &list{Files: changes.want}}); err != nil {
		return err
	}
	if len(changes.want) > 0 {
		if err := s.receive(c, o, changes, old); err != nil {
			return err
		}
	} else if now := after(o.Entries, old, changes); !maps.EqualFunc(now, old, Record.equal) {
		if err := c.remember(o, now); err != nil {
			return err
		}
	}
	if err := c.finishModes(o.Entries, changes.remode); err != nil {
		return err
	}
	return s.out.Encode(reply{Done: &done{Dir: Name(filepath.Join(c.base.Name(), c.name)), Removed: removed}})
}

// receive takes what was asked for. What it is about to put into the copy is remembered first: should this
// be cut off, it is known whose files those are.
func (s *server) receive(c *target, o Offer, changes changes, old map[Name]Record) error {
	now := after(o.Entries, old, changes)
	if err := c.remember(o, now); err != nil {
		return err
	}
	second, err := s.in.next()
	if err != nil {
		return fmt.Errorf("read what is staged: %w", err)
	}
	if err := c.unpack(second, o.Entries, changes.want, now, old); err != nil {
		return errors.Join(err, c.remember(o, now))
	}
	return c.remember(o, now)
}
