package control

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gorun/gorun/internal/files/trust"
)

// Place names the folders of the user's jobs.
type Place struct {
	Runtime string // folder of sockets that ends with the user's last session; "": none
	State   string // folder of the history, of detached jobs' sockets, and of jobs' folders; "": none
	Host    string // name of this machine, part of sockets' names because machines may share the folders
}

// FindPlace returns the user's folders as the XDG base directory specification names them. Neither
// needs to exist.
func FindPlace(getenv func(string) string) Place {
	p := Place{}
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		p.Runtime = filepath.Join(dir, "gorun")
	}
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		p.State = filepath.Join(dir, "gorun")
	} else if home := getenv("HOME"); filepath.IsAbs(home) {
		p.State = filepath.Join(home, ".local", "state", "gorun")
	}
	name, _ := os.Hostname()
	p.Host = fileName(name)
	return p
}

// fileName returns a host's name without characters that a file's name cannot have.
func fileName(host string) string {
	return strings.Map(func(c rune) rune {
		if c == '-' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return '_'
	}, host)
}

// folders returns the folders that may have sockets. The first is for jobs with a terminal.
func (p Place) folders() (all []string) {
	for _, dir := range []string{p.Runtime, p.State} {
		if dir != "" {
			all = append(all, dir)
		}
	}
	return all
}

// entries lists a folder of sockets by name. It has none where no job of this user could have made
// one: where it is missing or another user's, as that of XDG_RUNTIME_DIR is after su.
func entries(path string) ([]fs.DirEntry, error) {
	dir, err := trust.OpenDir(path, false)
	if foreign := new(*trust.Error); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) ||
		errors.Is(err, syscall.ENOTDIR) || errors.As(err, foreign) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return os.ReadDir(entry(dir, "."))
}

var errNoFolder = errors.New("neither XDG_RUNTIME_DIR nor HOME names a folder")

// socketName returns the name of a job's socket.
func (p Place) socketName(id string) string { return id + "@" + p.Host + ".sock" }

// socketOf returns the job and machine of a socket by its name.
func socketOf(name string) (id, host string, is bool) {
	name, is = strings.CutSuffix(name, ".sock")
	id, host, named := strings.Cut(name, "@")
	return id, host, is && named && id != ""
}
