package workdir

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// trusted fails where somebody other than this user and root could change what is below dir: ranks run it. It is the rule
// by which gorun itself is run on a host (launcher/session/trust.go).
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
	for _, d := range slices.Backward(above) { // from the top: what was looked at cannot be exchanged later
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

// safe is the rule for one folder. A group with the owner's number is the owner's own.
func safe(mode fs.FileMode, owner, group uint32, self int) bool {
	switch {
	case !mode.IsDir(), owner != 0 && int(owner) != self:
		return false
	case mode&fs.ModeSticky != 0:
		return true
	}
	return mode&0o002 == 0 && (mode&0o020 == 0 || owner == group)
}
