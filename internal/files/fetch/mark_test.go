package fetch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// Nothing is sent of the launcher's own folder. A file with the name of its mark, which another
// user may have made, does not make a folder that one.
func TestOnlyTheMarkedFolderIsTheLaunchers(t *testing.T) {
	w := newWorld(t)
	w.put("same/log", "text", 0o644)
	mark, remove, err := Mark(filepath.Join(w.home, "same"))
	must.OK(t, err)
	defer remove()
	w.put("other/log", "text", 0o644)
	w.put(filepath.Join("other", string(mark.Name)), "made by another user", 0o644)
	ask := func(dir string) *finder {
		from := []wire.FetchFrom{{Dir: wire.Text(dir), Patterns: wire.Texts{"*"}}}
		return must.Get(find(wire.Fetch{From: from, Here: &mark}, w.home))(t)
	}
	same := ask("same")
	check.That(t, same.Shared && len(same.Entries) == 0, "the launcher's folder: %v", same.Entries)
	other := ask("other")
	check.That(t, !other.Shared && len(other.Entries) == 1, "another folder: %v", other.Entries)
	// Nor does a link to the mark, which they need not be able to read.
	theirs := filepath.Join(w.home, "other", string(mark.Name))
	for _, link := range []func(old, new string) error{os.Symlink, os.Link} {
		must.OK(t, os.Remove(theirs))
		must.OK(t, link(filepath.Join(w.home, "same", string(mark.Name)), theirs))
		other := ask("other")
		check.That(t, !other.Shared && len(other.Entries) == 1, "a folder with a link: %v", other.Entries)
	}
	info := must.Get(os.Stat(filepath.Join(w.home, "same", string(mark.Name))))(t)
	check.Equal(t, info.Mode().Perm(), 0o600)
}
