package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// Comparison with ssh itself is in package ssh.

func write(t testing.TB, name, text string) string {
	must.OK(t, os.MkdirAll(filepath.Dir(name), 0o700))
	must.OK(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestDoubtfulFilesAreForSSH(t *testing.T) {
	for text, sure := range map[string]bool{
		"Host f*\n  User me\n": true, "Match all\n": false, "NoSuchOption yes\n": false, "Port\n": false,
		"Include config\n": false, "IdentityFile \"a b\"\n": false, "ProxyCommand sh -c 'x'\n": true,
		"CanonicalizeHostname NO\n": true,
	} {
		home := t.TempDir()
		file := write(t, filepath.Join(home, ".ssh", "config"), text)
		for _, mode := range []os.FileMode{0o600, 0o620} {
			must.OK(t, os.Chmod(file, mode))
			c, err := Read("", home)
			if mode == 0o620 && os.Getuid() != os.Getgid() {
				continue // then the group is not the user's own, and the file is refused
			}
			must.OK(t, err)
			c.files = c.files[:1] // without the machine's
			_, err = c.Values("f1")
			check.That(t, (err == nil) == (sure && mode == 0o600), "%q with mode %o: %v", text, mode, err)
		}
	}
}

// As with ssh, another user must not be able to write the user's file, nor one that it or a named
// file includes.
func TestFilesThatOthersCanWriteAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		user, included os.FileMode
		named, refused bool
	}{
		"nobody else":                      {0o600, 0o644, false, false},
		"the user's file":                  {0o602, 0o600, false, true},
		"an included file":                 {0o600, 0o602, false, true},
		"a named file":                     {0o602, 0o600, true, false}, // the user chose it
		"a file that a named one includes": {0o600, 0o606, true, true},
	} {
		home := t.TempDir()
		user := write(t, filepath.Join(home, ".ssh", "config"), "Host elsewhere\nInclude more\n")
		more := write(t, filepath.Join(home, ".ssh", "more"), "ProxyCommand evil\n")
		for file, mode := range map[string]os.FileMode{user: tc.user, more: tc.included} {
			must.OK(t, os.Chmod(file, mode))
		}
		file := ""
		if tc.named {
			file = user
		}
		_, err := Read(file, home)
		var refused *trust.Error
		check.That(t, errors.As(err, &refused) == tc.refused, "%s: %v", name, err)
	}
}

// A folder of included files may be one where others write, and a pipe there has no writer. ssh
// waits for one, so gorun does not ask it.
func TestIncludedPipeIsNotAwaited(t *testing.T) {
	home := t.TempDir()
	write(t, filepath.Join(home, ".ssh", "config"), "Include more/*\n")
	pipe := write(t, filepath.Join(home, ".ssh", "more", "pipe"), "")
	must.OK(t, errors.Join(os.Remove(pipe), syscall.Mkfifo(pipe, 0o644)))
	for _, name := range []string{"", pipe} {
		_, err := Read(name, home)
		check.That(t, errors.Is(err, trust.ErrIrregular), "%q: %v", name, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("match all\nHost\t*\nMATCH x\nInclude")
	f.Add("Host f1 !f2\n=\nport==\n\r\r\nIdentityFile \"a\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := must.Get(Read(write(t, filepath.Join(t.TempDir(), "config"),
			strings.ReplaceAll(strings.ToLower(text), "include", "")), "/nonexistent"))(t)
		values, _ := c.Values("f1")
		for keyword, list := range values {
			check.That(t, !strings.ContainsAny(keyword, " \t=") && len(list) != 0, "keyword %q has %q", keyword, list)
		}
	})
}

func FuzzParseDump(f *testing.F) {
	f.Add("host h\nuser me\nidentityfile a\nidentityfile b c\n")
	f.Add("proxycommand none\n\nport\nport 22\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		for keyword, list := range parseDump([]byte(text)) {
			check.That(t, keyword != "" && !strings.ContainsAny(keyword, " \n") && len(list) != 0,
				"keyword %q has %q", keyword, list)
			for _, v := range list {
				check.That(t, !strings.ContainsRune(v, '\n') && strings.Contains(text, v),
					"%s has the value %q", keyword, v)
			}
		}
	})
}
