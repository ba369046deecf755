package workdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/files/space"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/net/wire"
)

const (
	lockPoll    = 50 * time.Millisecond
	waitingStep = time.Second // between reports of waiting, which fail when the launcher is lost
	wantStep    = 1 << 16     // files in one message, which then has less than wire.MaxControl bytes
)

// Receive updates the copy below home of the folder that the launcher offers, and answers on out.
// first is the payload of the first folder frame; next returns the frames after it. The caller
// reports an error to the launcher.
func Receive(ctx context.Context, first []byte, next func() (wire.Frame, error), out *wire.Writer, home string) error {
	r := receiver{next: next, out: out}
	base := filepath.Join(home, ".cache/gorun/work")
	err := r.receive(ctx, first, base)
	// Say which path failed, not which system call.
	var path *os.PathError
	var full *space.Error
	if errors.As(err, &path) && !errors.As(err, &full) {
		err = fmt.Errorf("%s: %w", path.Path, path.Err)
	}
	return space.Explain(err, base, 0)
}

type receiver struct {
	next func() (wire.Frame, error)
	out  *wire.Writer
}

func (r *receiver) receive(ctx context.Context, first []byte, base string) error {
	o, err := readOffer(&Pieces{Next: r.next, rest: first})
	if err != nil {
		return fmt.Errorf("read the offer: %w", err)
	}
	if len(o.Proofs) > 0 && seen(o) {
		return r.out.SendMessage(wire.TypeStaged, wire.Staged{Shared: true})
	}
	if err := trust.MakeDir(base); err != nil {
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
	return r.update(ctx, c, o)
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
			return &target{
				base: base,
				name: name,
				lock: lock,
				real: map[string]bool{},
			}, nil
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

// update changes the copy to match the offer.
func (r *receiver) update(ctx context.Context, c *target, o Offer) error {
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
	// Files are recorded before they arrive, so that the next launch knows them even if this one is
	// interrupted.
	if !maps.EqualFunc(now, old, Record.equal) {
		if err := c.remember(o, now); err != nil {
			return err
		}
	}
	if len(changes.want) > 0 {
		if err := r.take(ctx, c, func(from io.Reader) error {
			err := c.unpack(from, o.Entries, changes.want, now, old)
			return errors.Join(err, c.remember(o, now))
		}); err != nil {
			return err
		}
	}
	if err := c.finishModes(o.Entries, changes.remode); err != nil {
		return err
	}
	return r.out.SendMessage(wire.TypeStaged, wire.Staged{Dir: []byte(filepath.Join(c.base.Name(), c.name))})
}

func (r *receiver) want(files []wire.WantedFile) error {
	for len(files) > wantStep {
		if err := r.out.SendMessage(wire.TypeWant, wire.Want{Files: files[:wantStep], More: true}); err != nil {
			return err
		}
		files = files[wantStep:]
	}
	return r.out.SendMessage(wire.TypeWant, wire.Want{Files: files})
}

// take gets the pack of the wanted files from the launcher or another host, and calls unpack with
// it.
func (r *receiver) take(ctx context.Context, c *target, unpack func(io.Reader) error) error {
	f, err := r.next()
	if err != nil {
		return fmt.Errorf("wait for the staged files: %w", err)
	}
	if f.Type != wire.TypeOffer {
		return &wire.FormatError{Reason: fmt.Sprintf("%s came where %s was due", f.Type, wire.TypeOffer)}
	}
	return relay.Receive(ctx, f.Payload, r.next, r.out, func(o wire.Offer) (relay.Target, error) {
		if o.Ask {
			return nil, &wire.FormatError{Reason: "the launcher asks for a pack that the host wants"}
		}
		file, err := c.base.OpenFile(c.part(), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		return &arriving{copy: c, file: file, unpack: unpack}, err
	})
}

// arriving is a pack that is being received. An interrupted launch leaves it, and the next launch
// resumes it.
type arriving struct {
	copy   *target
	file   *os.File
	unpack func(io.Reader) error
	forget bool
}

func (a *arriving) File() *os.File { return a.file }

func (a *arriving) Finish() (string, error) {
	_, err := a.file.Seek(0, io.SeekStart)
	if err == nil {
		err = a.unpack(a.file)
	}
	return filepath.Join(a.copy.base.Name(), a.copy.name), errors.Join(err, a.copy.base.Remove(a.copy.part()))
}

func (a *arriving) Forget() { a.forget = true }

func (a *arriving) Close() error {
	var err error
	if a.forget {
		err = a.copy.base.RemoveAll(a.copy.part())
	}
	return errors.Join(err, a.file.Close())
}
