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
		got, err := get(path)
		check.That(t, got == sum && err == nil, "%s of a text: %q, %v", name, got, err)
		check.Error(get(path+"x")).Any(t, name, "of no file")
	}
}
