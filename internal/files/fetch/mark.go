package fetch

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/net/wire"
)

// Mark makes a file in the folder at a path of this machine, by which hosts find out that they see
// this folder. Only its user can read what it says: in a folder of a host, another user may make a
// file with its name.
func Mark(path string) (mark wire.Mark, remove func(), err error) {
	folder, err := OpenFolder(path)
	if err != nil {
		return mark, nil, err
	}
	mark = wire.Mark{Name: wire.Text(".gorun-here-" + rand.Text()), Says: wire.Text(rand.Text())}
	name := string(mark.Name)
	file, err := folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return mark, nil, errors.Join(err, folder.Close())
	}
	_, err = file.WriteString(string(mark.Says))
	remove = func() {
		_ = folder.Remove(name) // a file that stays does no harm
		_ = folder.Close()
	}
	if err := errors.Join(err, file.Close()); err != nil { // a network file system writes as it closes
		remove()
		return mark, nil, err
	}
	return mark, remove, nil
}

// marked reports whether a folder of this host is the one with the mark. A link of another user may
// lead to the mark, which has one name.
func marked(dir string, mark *wire.Mark) bool {
	if mark == nil {
		return false
	}
	path := filepath.Join(dir, string(mark.Name))
	here, err := os.Lstat(path)
	if err != nil || here.Sys().(*syscall.Stat_t).Nlink > 1 {
		return false
	}
	file, err := trust.OpenRegular(path)
	if err != nil {
		return false
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !os.SameFile(info, here) {
		return false
	}
	text, err := trust.ReadAll(file, len(mark.Says))
	return err == nil && string(text) == string(mark.Says)
}
