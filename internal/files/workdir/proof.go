package workdir

import (
	"cmp"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/files/trust"
)

const (
	// maxProofs bounds the entries that a host compares, beside the folder itself.
	maxProofs = 64
	// recent: an entry that differs counts as the same if it changed after the scan, or at most
	// this long before, by the host's clock: another job may write there.
	recent = time.Minute
)

// proof distinguishes a path of one file system from the same path of another. A copy has
// other inodes, and no program can set an inode's change time.
type proof struct {
	Path  Name   `json:"path"`
	Inode uint64 `json:"inode"`
	Mtime int64  `json:"mtime"`
	Ctime int64  `json:"ctime"`
}

func proofOf(rel string, info fs.FileInfo) proof {
	p := proof{Path: Name(rel), Mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		p.Inode = st.Ino
		p.Ctime = changeTime(st)
	}
	return p
}

// newest returns the folder itself, which is the first of all, and the entries that changed last:
// they are the first to differ on a machine that was cloned from this one.
func newest(all []proof) []proof {
	if len(all) == 0 {
		return nil
	}
	rest := slices.Clone(all[1:])
	slices.SortFunc(rest, func(a, b proof) int {
		return cmp.Or(cmp.Compare(b.Ctime, a.Ctime), cmp.Compare(a.Path, b.Path))
	})
	return append(all[:1:1], rest[:min(len(rest), maxProofs)]...)
}

// same reports whether the entries that find returns are those of the proofs. Some may have changed
// recently, because another job may write there. It is pure.
func same(proofs []proof, scanned time.Time, find func(path string) (proof, bool)) bool {
	exact := 0
	for i, p := range proofs {
		q, found := find(string(p.Path))
		switch {
		case !found || i == 0 && q.Inode != p.Inode:
			return false
		case q == p:
			exact++
		case q.Ctime < scanned.Add(-recent).UnixNano():
			return false
		}
	}
	return exact > 0 && 2*exact >= len(proofs)
}

// proofsIn returns a function that finds the proof of a path in dir, and one that ends the search.
// It opens files where it can, since network file systems may answer a stat from their cache, and
// follows no links below dir. It finds nothing in a file system that another user serves, which may
// also be mounted below dir, on a single file, and may never answer.
func proofsIn(dir string) (find func(path string) (proof, bool), end func()) {
	var folder *os.File
	_, err := trust.Stat(dir)
	if err == nil {
		folder, err = os.OpenFile(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	if err == nil && trust.FileSystem(folder) != nil { // another one was mounted meanwhile
		folder.Close()
		err = fs.ErrPermission
	}
	if err != nil {
		return func(string) (proof, bool) { return proof{}, false }, func() {}
	}
	return func(path string) (proof, bool) {
		f := folder
		if path != "." {
			if err = shownBelow(folder, path); err == nil {
				f, err = openBelow(folder, path, pathOnly)
			}
			if err != nil {
				return proof{}, false
			}
			defer f.Close()
		}
		info, err := statOf(folder, f)
		if err == nil && path != "." && info.Mode().Type()&^fs.ModeDir == 0 {
			if opened, failed := openBelow(folder, path, unix.O_RDONLY|unix.O_NONBLOCK); failed == nil {
				info, err = statOf(folder, opened)
				opened.Close()
			}
		}
		if err != nil {
			return proof{}, false
		}
		return proofOf(path, info), true
	}, func() { folder.Close() }
}

// shownBelow returns an error if a file system of another user's is on the way to a path below an
// open folder.
func shownBelow(folder *os.File, path string) error {
	for i, c := range path {
		if c != '/' {
			continue
		}
		above, err := openBelow(folder, path[:i], pathOnly)
		if err != nil {
			return err
		}
		err = trust.FileSystemBelow(folder, above)
		above.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// statOf describes an open file in a folder, unless its file system is another user's, which says
// of a file what that user likes.
func statOf(folder, file *os.File) (fs.FileInfo, error) {
	if err := trust.FileSystemBelow(folder, file); err != nil {
		return nil, err
	}
	return file.Stat()
}
