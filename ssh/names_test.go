package ssh

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestKnownNames(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	names := KnownNames("")
	check.That(t, len(names) == 0, "an empty home: %q", names)
	for name, text := range map[string]string{
		".ssh/config": "Host f1 f2 *.lab !f9\n  HostName 10.0.0.1\nhost=gpu1\nInclude more/*\nInclude " +
			"~/extra\nInclude config\n",
		".ssh/more/a": "Host m1\n",
		"extra":       "Host x1 \"x2\"\n",
		"other":       "Host only\n",
		".ssh/known_hosts": "k1,10.0.0.7 ssh-ed25519 AAAA\n|1|abc=|def= ssh-rsa AAAA\n[p1]:2222 ssh-ed25519 AAAA\n# " +
			"no\n@revoked bad ssh-rsa AAAA\n\n*.lab ssh-rsa AAAA\nf1 ssh-rsa AAAA\n",
	} {
		path := filepath.Join(home, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	known := []string{"10.0.0.7", "f1", "k1", "p1"}
	want := append(slices.Clone(known), "f2", "gpu1", "m1", "x1", "x2")
	got := KnownNames("")
	check.That(t, slices.Equal(got, sorted(want)), "got %q, want %q", got, sorted(want))
	want = append(slices.Clone(known), "only")
	got = KnownNames(filepath.Join(home, "other"))
	check.That(t, slices.Equal(got, sorted(want)), "got %q, want %q", got, sorted(want))
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}
