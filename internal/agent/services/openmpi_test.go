package services

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
)

func TestLibrariesOfOpenMPI(t *testing.T) {
	for name, want := range map[string]bool{
		"libmpi.so.40": true, "libmpi.so.20": true, "libmpi_mpifh.so.40.30.1": true,
		"libmpi.so.12": false, "libmpich.so.12": false, "libmpi.so": false, "libmpifort.so.12": false, "libc.so.6": false, "libmpich.so.40": false,
	} {
		if got := ofOpenMPI(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestOpenMPIProgramsAreFound(t *testing.T) {
	lab.Need(t, "cc")
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	source := path("main.c")
	if err := os.WriteFile(source, []byte("int main(void) { return 0; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{
		{"cc", "-shared", "-x", "c", "/dev/null", "-Wl,-soname,libmpi.so.40", "-o", path("libmpi.so")},
		{"cc", source, "-Wl,--no-as-needed", path("libmpi.so"), "-o", path("linked")},
		{"cc", source, "-o", path("plain")},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", argv, err, out)
		}
	}
	for name, want := range map[string]bool{"linked": true, "plain": false, "main.c": false, "none": false, "": false} {
		if got := LinksOpenMPI(path(name)); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
