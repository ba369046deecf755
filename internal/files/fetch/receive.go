package fetch

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/files/space"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/net/wire"
)

const (
	// idleTime is how long a host may send nothing. It reads a file for its sums before it sends
	// it, at hashRate bytes per second at least, and within hashTime.
	idleTime = 5 * time.Minute
	hashRate = 50 << 20
	hashTime = 24 * time.Hour
)

// Folder is a folder of the launcher.
type Folder struct {
	*os.Root
	Path string // for messages
	Name string // of the only file that comes, in place of its own; "": its own
}

// OpenFolder opens the folder at a path, which is made where it is missing. It refuses, with a
// *trust.Error, a folder that others may change.
func OpenFolder(path string) (Folder, error) {
	root, err := trust.Folder(path)
	if err != nil {
		return Folder{}, space.Explain(relay.Plainly(err), filepath.Dir(path), 0)
	}
	if err := trust.Check(path); err != nil {
		return Folder{}, errors.Join(err, root.Close())
	}
	return Folder{Root: root, Path: path}, nil
}

// CheckFolder returns the error of [OpenFolder], and changes nothing.
func CheckFolder(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist) && path != filepath.Dir(path):
		return CheckFolder(filepath.Dir(path))
	case err != nil:
		return relay.Plainly(err)
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", path)
	}
	return trust.Check(path)
}

// Got is what came from a host.
type Got struct {
	List
	Files int   // number of files in the list
	Bytes int64 // size of the files in the list
	Came  int64 // bytes that were not there before
}

// ThisMachine stands for a host in a list of failed hosts that has a *[LocalError].
const ThisMachine = "this machine"

// LocalError reports that this machine cannot keep what a host sends.
type LocalError struct {
	Dir string // "": it could not be opened
	Err error
}

func (e *LocalError) Error() string {
	if e.Dir == "" { // Err has the path
		return e.Err.Error()
	}
	return "write to " + e.Dir + ": " + e.Err.Error()
}

func (e *LocalError) Unwrap() error { return e.Err }

// Open opens the folder for the files of a list, of which there is at least one, and makes it where
// it is missing.
type Open func(*List) (Folder, error)

// Receive asks a host for files and puts them below a folder. An error that is not the host's is a
// *LocalError.
func Receive(from relay.Host, ask wire.Fetch, open Open, meter relay.Meter) (Got, error) {
	return (&receiving{Host: from, meter: meter, idle: idleTime}).receive(ask, open)
}

func (r *receiving) receive(ask wire.Fetch, open Open) (Got, error) {
	defer r.close()
	r.Send(wire.TypeFetch, ask)
	r.watch = time.AfterFunc(r.idle, func() {
		r.late.Store(true)
		r.Cancel()
	})
	defer r.watch.Stop()
	err := r.run(ask, open)
	if err != nil && r.late.Load() {
		err = fmt.Errorf("it has sent nothing for %v", r.idle)
	}
	return r.got, err
}

// receiving is the state of files that come from one host.
type receiving struct {
	relay.Host
	meter  relay.Meter
	got    Got
	to     Folder
	files  []workdir.Entry  // files that were not offered yet
	coming []*relay.Arrival // incomplete files, in the order of the offers
	idle   time.Duration
	watch  *time.Timer
	late   atomic.Bool // whether the host was given up
}

func (r *receiving) run(ask wire.Fetch, open Open) error {
	list, err := readList(&workdir.Pieces{Next: r.next})
	if err == nil {
		err = list.checkAsked(ask)
	}
	if err != nil {
		return err
	}
	r.got.List = *list
	r.got.Files, r.got.Bytes = list.files()
	r.meter.Expect(r.got.Bytes)
	if len(list.Entries) == 0 {
		return nil
	}
	if r.to, err = open(list); err != nil {
		return r.local(err)
	}
	made, err := r.makeFolders()
	if err != nil {
		return r.local(err)
	}
	if err := r.checkRoom(); err != nil {
		return r.local(err)
	}
	for _, e := range list.Entries {
		if e.Kind == workdir.File {
			r.files = append(r.files, e)
		}
	}
	for len(r.files)+len(r.coming) > 0 {
		if err := r.step(); err != nil {
			return err
		}
	}
	r.Send(wire.TypeEnough, nil)
	return r.local(r.complete(made))
}

func (r *receiving) next() (wire.Frame, error) {
	more := time.Duration(0)
	if len(r.files) > 0 {
		more = time.Duration(min(r.files[0].Size/hashRate, int64(hashTime/time.Second))) * time.Second
	}
	r.watch.Reset(r.idle + more)
	defer r.watch.Stop() // time to write the frame here is not bounded
	f, err := r.Next()
	if err == nil && len(f.Payload) == 0 { // as good as silence, of which there may be little
		err = &wire.FormatError{Reason: fmt.Sprintf("an empty %s came", f.Type)}
	}
	return f, err
}

func (r *receiving) step() error {
	f, err := r.next()
	if err != nil {
		return err
	}
	switch {
	case f.Type == wire.TypeOffer && len(r.coming) < maxAhead && len(r.files) > 0:
		var o wire.Offer
		if err := f.Decode(&o); err != nil {
			return err
		}
		return r.offer(o)
	case f.Type == wire.TypePiece && len(r.coming) > 0:
		return r.piece(f.Payload)
	}
	return &wire.FormatError{Reason: fmt.Sprintf("%s came where a file was due", f.Type)}
}

// offer begins to take the next file of the list.
func (r *receiving) offer(o wire.Offer) error {
	e := r.files[0]
	if string(o.Name) != string(e.Path) || o.Size != e.Size || len(o.Dir) > 0 || o.Ask {
		return &wire.FormatError{Reason: fmt.Sprintf("%.80q of %d bytes came where %q of %d was due", o.Name, o.Size,
			e.Path, e.Size)}
	}
	r.files = r.files[1:]
	in := path.Dir(string(e.Path))
	root, err := r.to.OpenRoot(in)
	if err != nil {
		return r.local(r.failed(in, err))
	}
	o.Name = []byte(cmp.Or(r.to.Name, path.Base(string(e.Path))))
	o.Mode = uint32(e.Mode &^ 0o022) // others may write to no file, whatever the host says
	o.Mtime = time.Duration(e.Mtime)
	target, err := relay.KeepIn(root, filepath.Join(r.to.Path, in), o)
	if err != nil {
		return r.local(err)
	}
	a, err := relay.Arrive(o, target)
	if err != nil {
		return r.local(err)
	}
	r.coming = append(r.coming, a)
	r.got.Came += e.Size - a.Have()
	r.meter.Expect(-a.Have())
	r.Send(wire.TypeOffered, wire.Offered{Have: a.Have()})
	return r.finish()
}

func (r *receiving) piece(data []byte) error {
	_, err := r.coming[0].Write(data)
	if relay.IsOther(err) {
		return errors.New("a file was changed while it was copied: copy again")
	}
	if err != nil {
		return r.local(err)
	}
	r.meter.Add(int64(len(data)))
	return r.finish()
}

// finish puts the files that are whole in their places, up to the first that is not.
func (r *receiving) finish() error {
	for len(r.coming) > 0 && r.coming[0].Whole() {
		a := r.coming[0]
		r.coming = r.coming[1:]
		if err := errors.Join(a.Finish(), a.Close()); err != nil {
			return r.local(err)
		}
	}
	return nil
}

// close keeps what has come of files that are not whole.
func (r *receiving) close() {
	for _, a := range r.coming {
		_ = a.Close() // an earlier error says more
	}
	if r.to.Root != nil {
		_ = r.to.Close()
	}
}

// makeFolders makes the folders of the list, for this user only until all files are there, and
// returns those that were missing. It refuses, with a *trust.Error, one that others may change.
func (r *receiving) makeFolders() (made []workdir.Entry, err error) {
	for _, e := range r.got.Entries {
		if e.Kind != workdir.Dir {
			continue
		}
		err := r.to.Mkdir(string(e.Path), 0o700)
		if err == nil {
			made = append(made, e)
			continue
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, r.failed(string(e.Path), err)
		}
		here := filepath.Join(r.to.Path, string(e.Path))
		info, err := r.to.Lstat(string(e.Path))
		if err != nil || !info.IsDir() {
			return nil, fmt.Errorf("%s is no folder here: move it away", here)
		}
		if err := r.checkBelow(string(e.Path), here); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// checkBelow returns an error if others may change a folder that is there already.
func (r *receiving) checkBelow(rel, here string) error {
	below, err := r.to.Open(rel)
	if err != nil {
		return r.failed(rel, err)
	}
	defer below.Close()
	return trust.File(below, here)
}

// complete makes the links, and sets the modes of new folders. Others may write to none, whatever
// the host says.
func (r *receiving) complete(made []workdir.Entry) error {
	for _, e := range r.got.Entries {
		if e.Kind != workdir.Link {
			continue
		}
		if err := r.link(string(e.Path), string(e.Target)); err != nil {
			return r.failed(string(e.Path), err)
		}
	}
	for _, e := range made {
		if err := r.to.Chmod(string(e.Path), e.Mode&^0o022|0o700); err != nil {
			return r.failed(string(e.Path), err)
		}
	}
	return nil
}

func (r *receiving) link(at, target string) error {
	in, err := r.to.OpenRoot(path.Dir(at)) // once: a path may have thousands of names
	if err != nil {
		return err
	}
	defer in.Close()
	name := path.Base(at)
	if old, err := in.Readlink(name); err == nil && old == target {
		return nil
	}
	if info, err := in.Lstat(name); err == nil && info.IsDir() {
		return errors.New("it is a folder here")
	}
	temp := ".gorun-link-" + rand.Text() // a name that no file of the user's has
	if err := in.Symlink(target, temp); err != nil {
		return err
	}
	if err := in.Rename(temp, name); err != nil {
		return errors.Join(err, in.Remove(temp))
	}
	return nil
}

// local marks an error of this machine, and says which of its file systems is full.
func (r *receiving) local(err error) error {
	if err == nil || errors.As(err, new(*wire.FormatError)) {
		return err
	}
	return &LocalError{Dir: r.to.Path, Err: space.Explain(err, r.to.Path, 0)}
}

// failed says where something failed, not by which system call.
func (r *receiving) failed(rel string, err error) error {
	return fmt.Errorf("%s: %w", filepath.Join(r.to.Path, rel), relay.Cause(err))
}

// HostFolders returns the name of a folder for each host, the same for none, whatever the case of
// the names; "" for a single host.
func HostFolders(hosts []string) []string {
	names := make([]string, len(hosts))
	if len(hosts) < 2 {
		return names
	}
	taken := map[string]bool{}
	for i, host := range hosts {
		own := cmp.Or(strings.TrimLeft(strings.ReplaceAll(host, "/", "_"), "."), "host")
		name := own
		for n := 2; taken[strings.ToLower(name)]; n++ {
			name = fmt.Sprintf("%s.%d", own, n)
		}
		taken[strings.ToLower(name)] = true
		names[i] = name
	}
	return names
}
