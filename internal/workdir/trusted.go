package workdir

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// trusted returns an error if another user than this one and root could change files below dir, which ranks run. The rule is that of
// launcher/session/trust.sh.
func trusted(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	above := []string{real}
	for d := real; d != "/"; {
		d = filepath.Dir(d)
		above = append(above, d)
	}
	for _, d := range slices.Backward(above) { // from the top, so that a checked folder cannot be exchanged later
		info, err := os.Lstat(d)
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || !safe(info.Mode(), stat.Uid, stat.Gid, os.Getuid()) {
			return fmt.Errorf("not safe, others can change %s (%v): make it writable by you alone", d, info.Mode())
		}
	}
	return nil
}

// safe reports whether only the user self and root can change one folder. A group with the owner's number is the owner's private group.
func safe(mode fs.FileMode, owner, group uint32, self int) bool {
	switch {
	case !mode.IsDir(), owner != 0 && int(owner) != self:
		return false
	case mode&fs.ModeSticky != 0:
		return true
	}
	return mode&0o002 == 0 && (mode&0o020 == 0 || owner == group)
}
