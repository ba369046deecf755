// Package lookup finds the programs that an agent starts, and explains why one cannot be started
// there.
package lookup

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gorun/gorun/internal/net/wire"
)

// Find finds name as a shell in dir would, and checks that it can be executed, so that a mistake is
// reported once a host, not once a rank.
func Find(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		full := name
		if !filepath.IsAbs(full) {
			full = filepath.Join(dir, name)
		}
		return full, check(full)
	}
	if path == "" {
		path = "/usr/local/bin:/usr/bin:/bin"
	}
	var denied string
	for _, d := range filepath.SplitList(path) {
		if d == "" {
			d = "."
		}
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		full := filepath.Join(d, name)
		info, err := os.Stat(full)
		if err != nil || info.IsDir() {
			continue
		}
		if executable(full) {
			return full, check(full)
		}
		denied = full
	}
	if denied != "" {
		return "", wire.Refusef(wire.CodeNotExecutable, "make it executable: chmod +x "+denied, "%s is not executable",
			denied)
	}
	hint := "give its path, or send a PATH that holds it with -x PATH"
	if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
		hint = "there is one in the working directory: write ./" + name
	}
	return "", wire.Refusef(wire.CodeNotFound, hint, "the program %q was not found in PATH (%s)", name, path)
}

func check(full string) error {
	info, err := os.Stat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return wire.Refusef(wire.CodeNotFound, "copy it to every host, or use a path that all hosts share",
			"the program %s does not exist", full)
	case err != nil:
		return wire.Refusef(wire.CodeNotExecutable, "", "the program %s cannot be used: %v", full, Cause(err))
	case info.IsDir():
		return wire.Refusef(wire.CodeNotExecutable, "name a program in it, such as "+filepath.Join(full, "train"),
			"%s is a directory, not a program", full)
	case !executable(full):
		return wire.Refusef(wire.CodeNotExecutable, "make it executable: chmod +x "+full, "%s is not executable", full)
	}
	if interpreter := shebang(full); interpreter != "" {
		if _, err := os.Stat(interpreter); err != nil {
			return wire.Refusef(wire.CodeNotFound, "install it there, or name the interpreter on the command line",
				"the interpreter %q of %s does not exist", interpreter, full)
		}
	}
	return nil
}

func executable(path string) bool { return syscall.Access(path, 1) == nil }

// shebang returns the interpreter that a script names in its first line.
func shebang(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for a writer
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	line, _ := bufio.NewReaderSize(f, 512).ReadSlice('\n')
	rest, found := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\n")), []byte("#!"))
	// The kernel splits so: a \r belongs to the name.
	fields := bytes.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '\t' })
	if found && len(fields) > 0 {
		return string(fields[0])
	}
	return ""
}

// Cause strips the operation and path from err, which the sentence around it names.
func Cause(err error) error {
	var no syscall.Errno
	if errors.As(err, &no) {
		return no
	}
	return err
}

// CheckDir returns an error if a program cannot start in a working directory.
func CheckDir(dir string) error {
	hint := "create it there, or name one that exists on every host with --wdir"
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return wire.Refusef(wire.CodeHostFailed, hint, "the working directory %s does not exist", dir)
	case err != nil:
		return wire.Refusef(wire.CodeHostFailed, hint, "the working directory %s cannot be used: %v", dir, Cause(err))
	case !info.IsDir():
		return wire.Refusef(wire.CodeHostFailed, hint, "the working directory %s is not a directory", dir)
	}
	return nil
}
