// Package trust decides what other users of this machine could have made or changed. gorun runs, loads and obeys only files
// that its user and root alone can change, and overwrites no file of another user.
package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// maxLinks is how many links a path may lead through, as in Linux.
const maxLinks = 40

// Error reports that another user could have made or changed a file.
type Error struct {
	Path string // the file, or a directory or link that leads to it
	Why  string
	next string // a command that changes that, or ""
}

func (e *Error) Error() string {
	return fmt.Sprintf("not safe, others can change %s (%s)", e.Path, e.Why)
}

// Hint returns what to do.
func (e *Error) Hint() string {
	if e.next == "" {
		return "use one that belongs to you"
	}
	return "if it is yours alone: " + e.next
}

// Check returns an *Error if another user than this one and root could have made or changed the file or directory at path. Each
// component of the path, and of the links that it leads through, belongs to one of the two and is not writable by others. A sticky
// directory may be, as /tmp is. A group may write whose number equals the owner's: it is the owner's private group. A file system in
// user space (FUSE) may show anything, so its process must be theirs too.
//
// The launcher applies the same rule on hosts before gorun is there, in launcher/session/trust.sh.
func Check(path string) error {
	if !filepath.IsAbs(path) {
		current, err := os.Getwd()
		if err != nil {
			return err
		}
		path = current + "/" + path // not cleaned: a/.. is not . where a is a link
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // only Linux has it
		return fmt.Errorf("list the mounted file systems: %w", err)
	}
	self := os.Geteuid()
	foreign := foreignMounts(string(mounts), self)
	// From the top down: nobody else can exchange what has been checked.
	at, rest, links := "/", strings.Split(path, "/"), 0
	for {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if err := ownedBy(at, info, self); err != nil {
				return err
			}
			target, err := os.Readlink(at)
			if err != nil {
				return err
			}
			if links++; links > maxLinks {
				return &fs.PathError{Op: "follow", Path: path, Err: syscall.ELOOP}
			}
			if rest = slices.Concat(strings.Split(target, "/"), rest); filepath.IsAbs(target) {
				at = "/"
			} else {
				at = filepath.Dir(at)
			}
		} else if err := judge(at, info, self, foreign); err != nil {
			return err
		}
		if len(rest) == 0 {
			return nil
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:]
	}
}

// judge checks one component of a path that is no link.
func judge(path string, info fs.FileInfo, self int, foreign map[string]int) error {
	if user, mounted := foreign[path]; mounted {
		return &Error{Path: path, Why: fmt.Sprintf("a file system of user %d", user)}
	}
	if err := ownedBy(path, info, self); err != nil {
		return err
	}
	owner, group := ids(info)
	if safe(info.Mode(), owner, group) && (info.Mode()&0o020 == 0 || !hasACL(path)) {
		return nil
	}
	return &Error{path, info.Mode().String(), "chmod go-w " + path}
}

// safe reports whether only the owner can change a file or directory, as far as its mode says.
func safe(mode fs.FileMode, owner, group uint32) bool {
	if mode.IsDir() && mode&fs.ModeSticky != 0 {
		return true
	}
	return mode&0o002 == 0 && (mode&0o020 == 0 || owner == group)
}

func ownedBy(path string, info fs.FileInfo, self int) error {
	if owner, _ := ids(info); owner != 0 && int(owner) != self {
		return &Error{Path: path, Why: fmt.Sprintf("%v, user %d", info.Mode(), owner)}
	}
	return nil
}

// ids returns a file's user and group.
func ids(info fs.FileInfo) (owner, group uint32) {
	stat := info.Sys().(*syscall.Stat_t)
	return stat.Uid, stat.Gid
}

// foreignMounts returns where file systems in user space are mounted that belong to another user than self and root, with that
// user. The text is that of mountinfo (proc_pid_mountinfo(5)).
func foreignMounts(mountinfo string, self int) map[string]int {
	found := map[string]int{}
	for line := range strings.Lines(mountinfo) {
		mount, source, _ := strings.Cut(strings.TrimSpace(line), " - ")
		at, what := strings.Fields(mount), strings.Fields(source)
		if len(at) < 5 || len(what) < 3 || !strings.HasPrefix(what[0], "fuse") {
			continue
		}
		for option := range strings.SplitSeq(what[2], ",") {
			text, is := strings.CutPrefix(option, "user_id=")
			if user, err := strconv.Atoi(text); is && (err != nil || user != 0 && user != self) {
				found[unescape(at[4])] = user
			}
		}
	}
	return found
}

// unescape resolves the octal escapes of mountinfo.
func unescape(text string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}
