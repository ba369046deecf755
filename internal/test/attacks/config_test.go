package attacks

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// lair is a folder in which the attacker has prepared configuration that runs a program of theirs.
type lair struct {
	*commons
	c    *lab.Cluster
	evil string // the program; it says who runs it
}

func newLair(t *testing.T) lair {
	t.Helper()
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	l := lair{newCommons(t, c.Dir), c, filepath.Join(c.Dir, "open/evil")}
	l.as(0, `: >wins && chmod 666 wins`)
	l.as(attacker,
		fmt.Sprintf(`cd open && printf '#!/bin/sh\nid -u >>%[1]s/wins\n' >evil && chmod 755 evil && mkdir -p .config/gorun .ssh &&
		echo 'launch-agent: %[1]s/open/evil' >.config/gorun/config.yaml && printf 'Host *\nProxyCommand %[1]s/open/evil\n' >.ssh/config && echo 'ProxyCommand %[1]s/open/evil' >more`, c.Dir))
	return l
}

// run runs gorun as the victim in the folder, with the program's words before it. Without -F it
// finds the victim's configuration.
func (l lair) run(words ...string) *command.Run {
	l.Helper()
	argv := slices.Concat([]string{"env", "-C", filepath.Join(l.dir, "open")}, words,
		[]string{command.Binary("gorun"), "-H", "f1", "true"})
	r := command.New(l.T, l.c, command.Limit, command.NewMark(l.T), argv...)
	if err := r.Start(); err != nil {
		l.Fatal(err)
	}
	return r
}

func (l lair) safe(what string) {
	l.Helper()
	if wins := l.as(0, `cat wins && : >wins`); wins != "" {
		l.Errorf("%s: the attacker's program was run by %q", what, wins)
	}
}

// Configuration is never that of the current directory, which another user may have prepared.
func TestConfigurationOfTheCurrentDirectoryIsIgnored(t *testing.T) {
	l := newLair(t)
	home := userHome(t, l.c)
	l.as(0, fmt.Sprintf(`install -D -m 600 -o %d %s %s/.ssh/config && chown %[1]d %[3]s/.ssh`, victim, l.c.ConfigFile,
		l.c.Host("f0").Home))
	for _, words := range [][]string{{"-u", "HOME"}, {"HOME="}, {"XDG_CONFIG_HOME=.config"},
		{"-u", "HOME", "XDG_CONFIG_HOME=.config"}} {
		l.run(words...).Want(0)
		l.safe(fmt.Sprint(words))
	}
	// for the user who says so
	l.run("HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(l.dir, "open/.config")).Want(2, "not safe, others can change ")
	l.safe("XDG_CONFIG_HOME")

	// A user without an account has no home.
	r := command.New(t, nil, command.Limit, command.NewMark(t), "setpriv", "--reuid=65532", "--regid=65532",
		"--clear-groups", "env", "-C", filepath.Join(l.dir, "open"), "-u", "HOME",
		command.Binary("gorun"), "-H", "f1", "true")
	must.OK(t, r.Start())
	r.Want(125)
	l.safe("no account")
}

// Configuration that others can change is refused, and the error says how to change that.
func TestConfigurationOfOthersIsRefused(t *testing.T) {
	l := newLair(t)
	home := filepath.Join(l.c.Dir, "f0home") // a link, so that the scripts can name it
	must.OK(t, os.Symlink(l.c.Host("f0").Home, home))
	for _, tc := range []struct {
		name, script string
		code         int
		words        []string
	}{
		{"writable by all",
			`cp open/.config/gorun/config.yaml f0home/.config/gorun && chmod 606 f0home/.config/gorun/config.yaml`, 2,
			[]string{"chmod go-w "}},
		{"writable by a group",
			`cp open/.config/gorun/config.yaml f0home/.config/gorun && chmod 660 f0home/.config/gorun/config.yaml && chgrp 65533 f0home/.config/gorun/config.yaml`, 2, []string{"chmod go-w "}},
		{"in a folder for all",
			`cp open/.config/gorun/config.yaml f0home/.config/gorun && chmod 757 f0home/.config/gorun`, 2,
			[]string{"chmod go-w "}},
		{"a link to the attacker's",
			`cp open/.config/gorun/config.yaml theirs/file && ln -s $PWD/theirs/file f0home/.config/gorun/config.yaml`,
			2, []string{"user 65533"}},
		{"of ssh, writable by all",
			`mkdir f0home/.ssh && cp open/.ssh/config f0home/.ssh/config && chmod 606 f0home/.ssh/config`, 125,
			[]string{"chmod go-w "}},
		{"of ssh, included",
			`mkdir f0home/.ssh && echo Include $PWD/open/more >f0home/.ssh/config && chmod 600 f0home/.ssh/config`, 125,
			[]string{"user 65533"}},
	} {
		l.as(0, `rm -rf f0home/.config f0home/.ssh && mkdir -p f0home/.config/gorun && `+tc.script+
			` && chown -R -P --from=0 65534 f0home/.config $(ls -d f0home/.ssh)`)
		for _, path := range []string{"PATH=" + os.Getenv("PATH"), "PATH=/nowhere"} { // with ssh, and without
			l.run("HOME="+userHome(t, l.c), path).Want(tc.code,
				append(tc.words, "others can change ", "gorun: hint: ")...)
			l.safe(tc.name)
		}
	}
}

// A file to which another user has given a host's name is no hostfile for gorun config, unless it
// is named by a path.
func TestFileWithTheNameOfAHostIsNoHostfile(t *testing.T) {
	l := newLair(t)
	l.as(attacker, `echo evil.invalid >open/f1`)
	for answer, want := range map[string]string{"f1": "hosts: f1\n", "./f1": "hostfile: " + l.dir + "/open/f1\n"} {
		script := fmt.Sprintf(`printf '%%s\n' %s yes yes yes | "$0" config --replace`, answer)
		r := command.New(t, l.c, command.Limit, command.NewMark(t), "env", "-C", filepath.Join(l.dir, "open"),
			"HOME="+userHome(t, l.c), "sh", "-c", script, command.Binary("gorun"))
		must.OK(t, r.Start())
		r.Want(1) // neither host lets the user in
		text := must.Get(os.ReadFile(filepath.Join(l.c.Host("f0").Home, ".config/gorun/config.yaml")))(t)
		check.That(t, strings.Contains(string(text), want), "%s: %s", answer, text)
	}
}
