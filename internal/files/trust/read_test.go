package trust

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// Of a folder with any number of names few are kept at a time.
func TestNamesAreFew(t *testing.T) {
	dir := t.TempDir()
	for i := range 3000 {
		must.OK(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600))
	}
	for _, most := range []int{0, 1, 1024, 2000, 3000, math.MaxInt} {
		names := slices.Sorted(Names(dir, most))
		check.Equal(t, len(slices.Compact(names)), min(most, 3000))
	}
	for range Names(dir, 10) {
		break
	}
	check.Equal(t, len(slices.Collect(Names(dir+"/0", 10))), 0, "names of a file")
	check.Equal(t, len(slices.Collect(Names(dir+"/none", 10))), 0, "names of nothing")
}

// Open refuses at once a pipe or the like in the place of a file, and a link to one. It reads
// devices and open descriptors that the path itself names.
func TestOpenNeverWaits(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must.OK(t, os.WriteFile(in("file"), []byte("text"), 0o600))
	must.OK(t, os.Mkdir(in("dir"), 0o700))
	must.OK(t, syscall.Mkfifo(in("pipe"), 0o600))
	must.OK(t, os.Symlink("pipe", in("link to a pipe")))
	must.OK(t, os.Symlink("file", in("link")))
	must.OK(t, os.Symlink("/dev/zero", in("link to a device")))
	read, write, err := os.Pipe()
	must.OK(t, err)
	defer read.Close()
	_, err = io.WriteString(write, "text")
	must.OK(t, errors.Join(err, write.Close()))
	for name, want := range map[string]string{
		in("file"): "text", in("link"): "text", os.DevNull: "",
		"/dev/fd/" + strconv.Itoa(int(read.Fd())): "text",
	} {
		text, err := ReadFile(name, 4)
		check.That(t, err == nil && string(text) == want, "%s has %q, %v", name, text, err)
	}
	for _, name := range []string{"pipe", "link to a pipe", "link to a device"} {
		check.Error(ReadFile(in(name), 4)).Is(t, ErrIrregular, name)
	}
	for name, want := range map[string]string{in("dir"): "directory", in("none"): "no such file",
		in("file"): "longer than 3 bytes", "/dev/zero": "longer than 3 bytes"} {
		_, err := ReadFile(name, 3)
		check.That(t, err != nil && strings.Contains(err.Error(), want), "%s: %v, want %q", name, err, want)
	}
}
