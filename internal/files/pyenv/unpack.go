package pyenv

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

const (
	maxPrefix = 4096
	maxText   = 4 << 20 // limit of a file's size for path replacement
	maxTail   = 1 << 20 // bytes behind the archive's end, which pads it
)

// room is how much an environment may still have.
type room struct {
	files int
	names int // in the paths
	bytes int64
}

// take takes the room of one file, folder or link at a path.
func (r *room) take(rel string, bytes int64) error {
	r.files--
	r.names -= strings.Count(rel, "/") + 1
	r.bytes -= bytes
	switch {
	case r.files < 0 || r.bytes < 0:
		return fmt.Errorf("it has more than %d files, or %d GiB", maxFiles, maxBytes>>30)
	case r.names < 0:
		return fmt.Errorf("it has too deep folders: the paths in it have more than %d names", maxNames)
	}
	return nil
}

// unpack makes an environment in the empty folder dir of a pack. It will be at the path final.
func unpack(r io.Reader, dir, final string, within room) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	zip, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("read the pack: %w", err)
	}
	archive := tar.NewReader(zip)
	first, err := archive.Next()
	if err != nil || first.Name != prefixFile || first.Size > maxPrefix {
		return fmt.Errorf("read the pack: it does not begin with a path: %w", err)
	}
	old, err := io.ReadAll(archive)
	if err != nil || !path.IsAbs(string(old)) {
		return fmt.Errorf("read the pack: %q is no path: %w", old, err)
	}
	u := unpacker{
		root: root,
		from: string(old),
		to:   final,
		room: within,
	}
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = u.leave(path.Clean(h.Name))
		}
		if err == nil {
			err = u.one(h, archive)
		}
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
	}
	if err := u.leave("."); err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, io.LimitReader(zip, maxTail+1)) // verifies the checksum
	if n > maxTail {
		err = fmt.Errorf("unpack: more than %d bytes behind the end of the archive", maxTail)
	}
	return err
}

type unpacker struct {
	root     *os.Root
	from, to string
	room     room
	within   []folder // folders that the last entry is in, and itself if it is one
}

// folder is a folder whose time is set when all is there that it holds: writing in it changes that.
type folder struct {
	name string
	at   time.Time
}

// leave sets the times of the folders that an entry is not in. A pack has what is in a folder right
// behind it, so no more of them wait than are in each other.
func (u *unpacker) leave(next string) error {
	for len(u.within) > 0 {
		last := u.within[len(u.within)-1]
		if strings.HasPrefix(next, last.name+"/") {
			return nil
		}
		if err := u.root.Chtimes(last.name, last.at, last.at); err != nil {
			return err
		}
		u.within = u.within[:len(u.within)-1]
	}
	return nil
}

func (u *unpacker) one(h *tar.Header, r io.Reader) error {
	name := path.Clean(h.Name)
	if !filepath.IsLocal(name) {
		return fmt.Errorf("%q leads out of the environment", h.Name)
	}
	if err := u.room.take(name, h.Size); err != nil { // a sparse file has its whole size here
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		u.within = append(u.within, folder{name, h.ModTime})
		return u.root.Mkdir(name, fs.FileMode(h.Mode)&fs.ModePerm|0o700)
	case tar.TypeSymlink:
		return u.root.Symlink(u.moved(h.Linkname), name)
	case tar.TypeReg:
		if h.Size <= maxText && hasPath(name) {
			text, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			r = bytes.NewReader(relocate(text, u.from, u.to))
		}
		return u.file(name, fs.FileMode(h.Mode)&fs.ModePerm, h.ModTime, r)
	}
	return fmt.Errorf("%q is no file, folder or link", h.Name)
}

func (u *unpacker) file(name string, mode fs.FileMode, at time.Time, r io.Reader) error {
	file, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, r)
	if err = errors.Join(err, file.Chmod(mode), file.Close()); err != nil {
		return err
	}
	return u.root.Chtimes(name, at, at)
}

// moved returns a link's target at the environment's new path, if it is in the environment.
func (u *unpacker) moved(target string) string {
	if rest, inside := strings.CutPrefix(target, u.from+"/"); inside {
		return u.to + "/" + rest
	}
	return target
}

// hasPath reports whether a file of an environment may have the environment's path in it, and be
// text: programs and what activates them, the configuration, and lists of folders to import from.
func hasPath(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	switch path.Ext(name) {
	case ".pth", ".egg-link", ".pc", ".la":
		return true
	}
	return name == "pyvenv.cfg" || top == "bin" || top == "etc" || strings.HasPrefix(name, "share/jupyter/kernels/")
}

// relocate replaces a path in a text, where a whole name ends: /env in /env/bin, not in /env2. A
// file that is no text stays as it is.
func relocate(text []byte, from, to string) []byte {
	if bytes.IndexByte(text, 0) >= 0 {
		return text
	}
	var out []byte
	for {
		i := bytes.Index(text, []byte(from))
		if i < 0 {
			return append(out, text...)
		}
		end := i + len(from)
		out = append(out, text[:i]...)
		if end < len(text) && isNameByte(text[end]) || i > 0 && (isNameByte(text[i-1]) || text[i-1] == '/') {
			out = append(out, from...)
		} else {
			out = append(out, to...)
		}
		text = text[end:]
	}
}

func isNameByte(b byte) bool {
	return b == '-' || b == '_' || b == '.' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' ||
		b >= 0x80
}
