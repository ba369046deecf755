package workdir

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/net/wire"
)

// Folders is a scanned folder of this machine, or one for each architecture of hosts.
type Folders struct {
	Dir      string // absolute path as the user gave it, which may contain [wire.Arch]
	Files    int    // files in all trees
	Bytes    int64
	Warnings []string

	trees map[string]*Tree // trees by architecture; "": all architectures
}

// ScanFolders is [Scan] of dir. If dir does not exist and has [wire.Arch] in it, it scans dir for
// each architecture for which that exists; without any it returns the error of the last one. The
// limits are for each of them.
func ScanFolders(dir string, files int, bytes int64, except ...string) (*Folders, error) {
	f := &Folders{Dir: dir, trees: map[string]*Tree{}}
	tree, err := Scan(dir, files, bytes, except...)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(dir, wire.Arch) {
		f.add("", tree)
		return f, err
	}
	for _, arch := range []string{"amd64", "arm64"} { // the architectures that gorun supports
		tree, err = Scan(wire.ForArch(arch, dir), files, bytes, except...)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		f.add(arch, tree)
	}
	if len(f.trees) == 0 {
		return nil, err
	}
	return f, nil
}

func (f *Folders) add(arch string, tree *Tree) {
	if tree == nil {
		return
	}
	f.trees[arch] = tree
	f.Files += tree.Files
	f.Bytes += tree.Bytes
	f.Warnings = append(f.Warnings, tree.Warnings...)
}

// Senders has a sender for each of some [Folders].
type Senders struct {
	Dir string // path of the folders
	by  map[string]*Sender
}

// NewSenders returns senders of folders of the named machine. trace, warn and meter are those of
// [NewSender].
func NewSenders(f *Folders, machine string, trace func(format string, args ...any), warn func(string),
	meter relay.Meter) *Senders {
	s := &Senders{f.Dir, map[string]*Sender{}}
	for arch, tree := range f.trees {
		s.by[arch] = NewSender(tree, machine, trace, warn, meter)
	}
	return s
}

// For returns the sender for hosts of an architecture. If there is none, the error is a
// *NoFolderError.
func (s *Senders) For(arch string) (*Sender, error) {
	if all := s.by[""]; all != nil {
		return all, nil
	}
	if one := s.by[arch]; one != nil {
		return one, nil
	}
	return nil, &NoFolderError{wire.ForArch(arch, s.Dir), arch}
}

// NoFolderError reports that a host has an architecture for which there is no folder.
type NoFolderError struct{ Dir, Arch string }

func (e *NoFolderError) Error() string {
	return fmt.Sprintf("stage %s: no such folder, and the host's architecture is %s", e.Dir, e.Arch)
}

// Hint names the remedies.
func (e *NoFolderError) Hint() string {
	return fmt.Sprintf("build the program for %s in %s, or run the job without this host", e.Arch, e.Dir)
}
