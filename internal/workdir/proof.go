package workdir

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	// maxProofs is how many entries a host looks at to see whether it sees the folder itself.
	maxProofs = 64
	// recent is how long before the scan a job in the folder may have begun to change it; clocks differ, too.
	recent = time.Minute
)

// proof is what tells a path of this file system from one that only has the same name. A copy has
// another inode, and nobody can set the time of an inode's last change.
type proof struct {
	Path  Name   `json:"path"`
	Inode uint64 `json:"inode"`
	Mtime int64  `json:"mtime"`
	Ctime int64  `json:"ctime"`
}

func proofOf(rel string, info fs.FileInfo) proof {
	p := proof{Path: Name(rel), Mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		p.Inode, p.Ctime = st.Ino, st.Ctim.Nano()
	}
	return p
}

// newest chooses the proofs that tell most: what changed last would be the first to differ on a machine that
// was once cloned from this one. The folder itself, the first of all, stays first.
func newest(all []proof) []proof {
	if len(all) == 0 {
		return nil
	}
	rest := slices.Clone(all[1:])
	slices.SortFunc(rest, func(a, b proof) int { return cmp.Or(cmp.Compare(b.Ctime, a.Ctime), cmp.Compare(a.Path, b.Path)) })
	return append(all[:1:1], rest[:min(len(rest), maxProofs)]...)
}

// same decides whether proofs, found as they are told by look, are of one and the same folder. Some may have
// changed just now: another job may be writing there. It is pure.
func same(proofs []proof, scanned time.Time, look func(path string) (proof, bool)) bool {
	exact := 0
	for i, p := range proofs {
		q, found := look(string(p.Path))
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

// lookIn looks at paths of dir. It opens what it can, which makes network file systems ask their server
// instead of their memory.
func lookIn(dir string) func(path string) (proof, bool) {
	return func(path string) (proof, bool) {
		full := filepath.Join(dir, path)
		info, err := os.Lstat(full)
		if path == "." {
			info, err = os.Stat(full)
		}
		if err != nil {
			return proof{}, false
		}
		if f, err := os.OpenFile(full, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0); err == nil && info.Mode().Type()&^fs.ModeDir == 0 {
			if now, err := f.Stat(); err == nil {
				info = now
			}
			f.Close()
		}
		return proofOf(path, info), true
	}
}
