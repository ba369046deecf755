package knownhosts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO7ZVcbYJ4IVfYzVgkyl3Cl6aWtSmVjfA9K+TkSzXAbt"

func TestEntries(t *testing.T) {
	file := filepath.Join(t.TempDir(), "known")
	text := "\n# comment\nh " + publicKey + "\n@revoked\th\t" + publicKey + " a comment\r\n@cert-authority *.x " +
		publicKey +
		"\n@unheard-of h " + publicKey + "\nh ssh-rsa " + strings.Fields(publicKey)[1] +
		"\nh 1024 35 1234\nh ssh-ed25519 AAAA\n@revoked " + publicKey + "\nlast " + publicKey
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	read, err := Read(file)
	must.That(t, err == nil && len(read.entries) == 4, "%+v, %v", read, err)
	for i, want := range []struct {
		marker Marker
		line   int
		name   string
	}{{Key, 3, "h"}, {Revoked, 4, "h"}, {Authority, 5, "a.x"}, {Key, 11, "last"}} {
		e := read.entries[i]
		check.That(t, e.Marker == want.marker && e.Line == want.line && e.File == file && e.matches(want.name) &&
			!e.matches("other"), "entry %d is %+v", i, e)
	}
}

// A file finds the entries that match, in their order.
func FuzzFile(f *testing.F) {
	for _, hosts := range []string{"a b", "a,b a", "a,a *", "!a,* B,[a]:2", "|1|AAAA|AAAA a,,b"} {
		first, second, _ := strings.Cut(hosts, " ")
		f.Add(first, second, "b,a", "a")
	}
	f.Fuzz(func(t *testing.T, one, two, three, name string) {
		file := &File{named: map[string][]int{}}
		name = strings.ToLower(name)
		var want []Entry
		for i, hosts := range []string{one, two, three} {
			e := Entry{Line: i, hosts: parseHosts(hosts)}
			file.add(e)
			if e.matches(name) {
				want = append(want, e)
			}
		}
		check.Slice(t, file.Of(name), want, name, "of", one, two, "and", three)
	})
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{"h " + publicKey, "@revoked * " + publicKey, "|1|AAAA|AAAA " + publicKey,
		"|1| " + publicKey, "@ " + publicKey, "a,!b,[c*]:2? " + publicKey} {
		f.Add(line, "h")
	}
	f.Fuzz(func(t *testing.T, line, name string) {
		if e, ok := parse([]byte(line)); ok {
			e.matches(name)
			check.That(t, e.Key != nil, "%q has no key", line)
		}
	})
}

// Patterns mean what the same regular expressions do.
func FuzzPattern(f *testing.F) {
	f.Add("f*", "f1")
	f.Add("*.1?7.*", "10.117.1")
	f.Add("**a*b", "ab")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if strings.ContainsFunc(pattern+name, func(r rune) bool {
			return r < ' ' || r > '~'
		}) || len(pattern)+len(name) > 60 {
			return
		}
		same := regexp.MustCompile("^" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern)) +
			"$")
		got := like(pattern, name)
		want := same.MatchString(name)
		check.That(t, got == want, "like(%q, %q) is %v", pattern, name, got)
	})
}

// The folder of temporary files may be another user's, who replaces what gorun leaves there before
// ssh-keygen reads it.
func TestRevocationIsOfTheKeyItself(t *testing.T) {
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		lab.Skip(t, "needs ssh-keygen")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	file := filepath.Join(dir, "key.pub")
	must.OK(t, os.WriteFile(file, []byte(publicKey+"\n"), 0o600))
	must.OK(t, exec.Command(keygen, "-q", "-k", "-f", dir+"/krl", file).Run())
	must.OK(t, exec.Command(keygen, "-q", "-t", "ed25519", "-N", "", "-f", dir+"/other").Run())
	replace := "#!/bin/sh\nfor f in \"$TMPDIR\"/*; do [ -e \"$f\" ] && cp " + dir + "/other.pub \"$f\"; done\nexec " +
		keygen + " \"$@\"\n"
	must.OK(t, os.WriteFile(dir+"/ssh-keygen", []byte(replace), 0o700))
	key, _, _, _, err := xssh.ParseAuthorizedKey([]byte(publicKey))
	must.OK(t, err)
	revoked, err := RevokedIn(t.Context(), dir+"/krl", key)
	check.That(t, revoked && err == nil, "revoked: %v, %v", revoked, err)
}

// A host key is not judged without a temporary file, and the error leads to the variable.
func TestRevocationNamesTheTemporaryFolder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(dir, "absent"))
	list := filepath.Join(dir, "krl")
	must.OK(t, os.WriteFile(list, []byte("SSHKRL\n\x00"), 0o600))
	key, _, _, _, err := xssh.ParseAuthorizedKey([]byte(publicKey))
	must.OK(t, err)
	_, err = RevokedIn(t.Context(), list, key)
	var temporary *trust.TemporaryError
	check.Error(err).As(t, &temporary)
	check.That(t, temporary != nil && strings.Contains(temporary.Hint(), "TMPDIR="), "%v", err)
}
