package attacks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/buildid"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Files that come back with gorun cp: a host whose gorun lies writes nothing outside the folder,
// and the folder is one that other users cannot change.
func TestFilesThatComeBack(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(1)...)
	build := must.Get(buildid.Of(command.Binary("gorun")))(t)
	list := filepath.Join(c.Dir, "list")
	fake := filepath.Join(c.Dir, "fake")
	must.OK(t, os.WriteFile(filepath.Join(c.Dir, "build"), []byte(build), 0o600))
	must.OK(t, os.WriteFile(fake, fmt.Appendf(nil, "#!/bin/sh\nexec %s %s \"$@\"\n", command.Binary("hostile"), c.Dir),
		0o755))
	must.Run(t, onAs(t, c, "f1", 0, `mount --bind "$1" "$2"`, fake, command.Binary("gorun")))
	victims := filepath.Join(c.Dir, "victims")
	must.OK(t, os.MkdirAll(filepath.Join(victims, "in"), 0o755))
	secret := filepath.Join(victims, "secret")
	must.OK(t, os.WriteFile(secret, []byte("secret"), 0o600))
	for i, tc := range []struct{ entries, want string }{
		{`{"path":"good","kind":"file","size":4,"mode":438}`, ""},
		{`{"path":"../secret","kind":"file","size":4}`, "leads out of the folder"},
		{fmt.Sprintf(`{"path":%q,"kind":"file","size":4}`, secret), "leads out of the folder"},
		{`{"path":"l","kind":"link","target":"../secret"}`, "out of the folder"},
		{`{"path":"d","kind":"dir"},{"path":"d/up","kind":"link","target":".."},` +
			`{"path":"d/out","kind":"link","target":"up/../.."}`, "a link to"},
		{`{"path":"d","kind":"dir"},{"path":"d/up","kind":"link","target":".."},` +
			`{"path":"d/out","kind":"link","target":"up/.."}`, "a link to"},
		{`{"path":"l","kind":"link","target":"."},{"path":"l/x","kind":"file","size":4}`, "its folder does not come"},
		{`{"path":"a","kind":"fifo"}`, "unknown kind"},
		{`{"path":".bashrc","kind":"file","size":4}`, "nobody has asked"},
		{`{"path":".ssh","kind":"dir"},{"path":".ssh/authorized_keys","kind":"file","size":4}`, "nobody has asked"},
		{`{"path":"a","kind":"file","size":4,"mode":2541}`, "mode"},
		{`{"path":"a","kind":"file","size":3}`, "was changed"},
		{`{"path":"a","kind":"file","size":200000}`, ""}, // the rest does not come
		{`{"path":"a","kind":"file","size":262144000000000000}`, "f1 announces 262144000000000000 bytes"},
		{strings.Repeat("{},", 6<<20) + "{}", "values"},
	} {
		must.OK(t, os.WriteFile(list, []byte(`{"Entries":[`+tc.entries+`]}`), 0o600))
		dir := filepath.Join(victims, "in", fmt.Sprint(i))
		r := command.Start(t, c, "cp", "f1:*", dir)
		if tc.want == "" && i > 0 {
			must.Until(t, "the part of the file", func() bool {
				parts, err := os.ReadDir(dir)
				return err == nil && len(parts) == 1
			})
			r.Stop()
			continue
		}
		code := r.Wait()
		check.That(t, (code == 0) == (tc.want == "") && strings.Contains(r.Err.String(), tc.want),
			"%.200s: exit code %d: %s", tc.entries, code, &r.Err)
	}
	text := must.Get(os.ReadFile(filepath.Join(victims, "in/0/good")))(t)
	check.Equal(t, string(text), "evil")
	info := must.Get(os.Stat(filepath.Join(victims, "in/0/good")))(t)
	check.Equal(t, info.Mode().Perm(), 0o644, "another user may write what has come")
	text = must.Get(os.ReadFile(secret))(t)
	check.Equal(t, string(text), "secret")
	left := must.Get(os.ReadDir(victims))(t)
	check.Equal(t, len(left), 2, "files beside the folder")

	// Another user could exchange what has come.
	for _, mode := range []os.FileMode{0o777, 0o775 | os.ModeSetgid} {
		open := filepath.Join(victims, "open")
		must.OK(t, os.MkdirAll(open, 0o755))
		must.OK(t, os.Chown(open, 0, attacker))
		must.OK(t, os.Chmod(open, mode))
		r := command.Start(t, c, "cp", "f1:x", filepath.Join(open, "new"))
		check.Equal(t, r.Wait(), 2, r.Err.String())
		left := must.Get(os.ReadDir(open))(t)
		check.Equal(t, len(left), 0, mode)
	}
}
