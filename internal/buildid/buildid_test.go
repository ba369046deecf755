package buildid

import (
	"os"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestOfAndHash(t *testing.T) {
	own, err := Of("/proc/self/exe")
	check.That(t, err == nil && own != "", "build %q, %v", own, err)
	path := t.TempDir() + "/text"
	must.OK(t, os.WriteFile(path, []byte("abc"), 0o600))
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	for name, get := range map[string]func(string) (string, error){"Of": Of, "Hash": Hash} {
		if got, err := get(path); got != sum || err != nil {
			t.Errorf("%s of a text: %q, %v", name, got, err)
		}
		if _, err := get(path + "x"); err == nil {
			t.Errorf("%s of no file", name)
		}
	}
}
