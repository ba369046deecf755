package workdir

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/trust"
	"github.com/gorun/gorun/internal/wire"
)

const (
	lockPoll    = 50 * time.Millisecond
	waitingStep = time.Second // between reports of waiting, which fail when the launcher is lost
	wantStep    = 1 << 16     // files in one message, which then has less than wire.MaxControl bytes
)

// Receive updates the copy below home of the folder that the launcher sends, and answers on out. first is the payload of the
// first folder frame; next returns the frames after it. The caller reports an error to the launcher.
func Receive(first []byte, next func() (wire.Frame, error), out *wire.Writer, home string) error {
	r := receiver{in: member{from: &pieces{next: next, rest: first}}, out: out}
	err := r.receive(filepath.Join(home, ".cache/gorun/work"))
	// Say which path failed, not which system call.
	var path *os.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("%s: %w", path.Path, path.Err)
	}
	return err
}

type receiver struct {
	in  member
	out *wire.Writer
}

func (r *receiver) receive(base string) error {
	first, err := r.in.next()
	if err != nil {
		return fmt.Errorf("read the offer: %w", err)
	}
	o, err := readOffer(first)
	if err != nil {
		return fmt.Errorf("read the offer: %w", err)
	}
	if len(o.Proofs) > 0 && seen(o) {
		return r.out.SendMessage(wire.TypeStaged, wire.Staged{Shared: true})
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return err
	}
	if err := trust.Check(base); err != nil {
		return err
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer root.Close()
	c, err := r.lock(root, o.Copy)
	if err != nil {
		return err
	}
	defer c.close()
	return r.update(c, o)
}

// seen reports whether this host sees the offered folder itself.
func seen(o Offer) bool {
	find, end := proofsIn(string(o.Dir))
	defer end()
	return same(o.Proofs, o.Scanned, find)
}

// lock waits until no other launch changes the copy.
func (r *receiver) lock(base *os.Root, name string) (*target, error) {
	lock, err := base.OpenFile(name+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for reported := time.Now(); ; time.Sleep(lockPoll) {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return &target{base: base, name: name, lock: lock, real: map[string]bool{}}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			lock.Close()
			return nil, fmt.Errorf("lock %s: %w", filepath.Join(base.Name(), lock.Name()), err)
		}
		if time.Since(reported) < waitingStep {
			continue
		}
		reported = time.Now()
		if err := r.out.Send(wire.TypeWaiting, 0, nil); err != nil {
			lock.Close()
			return nil, err
		}
	}
}

// update makes the copy like the offer.
func (r *receiver) update(c *target, o Offer) error {
	if err := c.base.RemoveAll(c.fresh("")); err != nil { // left by an interrupted launch
		return err
	}
	for _, dir := range []string{c.fresh(""), c.name} {
		if err := c.base.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	old := c.records()
	changes := compare(o.Entries, old, c.staged)
	if err := c.remove(changes.remove); err != nil {
		return err
	}
	if err := c.frame(o.Entries); err != nil {
		return err
	}
	if err := r.want(changes.want); err != nil {
		return err
	}
	now := after(o.Entries, old, changes)
	// Files are recorded before they arrive, so that the next launch knows them even if this one is interrupted.
	if !maps.EqualFunc(now, old, Record.equal) {
		if err := c.remember(o, now); err != nil {
			return err
		}
	}
	if len(changes.want) > 0 {
		err := r.unpack(c, o, changes.want, now, old)
		if err = errors.Join(err, c.remember(o, now)); err != nil {
			return err
		}
	}
	if err := c.finishModes(o.Entries, changes.remode); err != nil {
		return err
	}
	return r.out.SendMessage(wire.TypeStaged, wire.Staged{Dir: []byte(filepath.Join(c.base.Name(), c.name))})
}

// want asks the launcher for files.
func (r *receiver) want(files []wire.WantedFile) error {
	for len(files) > wantStep {
		if err := r.out.SendMessage(wire.TypeWant, wire.Want{Files: files[:wantStep], More: true}); err != nil {
			return err
		}
		files = files[wantStep:]
	}
	return r.out.SendMessage(wire.TypeWant, wire.Want{Files: files})
}

// unpack reads the launcher's second gzip member.
func (r *receiver) unpack(c *target, o Offer, files []wire.WantedFile, records, old map[Name]Record) error {
	second, err := r.in.next()
	if err != nil {
		return fmt.Errorf("read the staged files: %w", err)
	}
	return c.unpack(second, o.Entries, files, records, old)
}
