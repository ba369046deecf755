package attacks

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Files that gorun creates belong to the user alone, also with a umask of 0, and gorun never
// changes an owner.
func TestFilesAreTheUsersOwn(t *testing.T) {
	c := lab.MustNamespacesAs(t, 65534, lab.Specs(1)...)
	home := userHome(t, c)
	dir := filepath.Join(home, "work")
	must.Run(t, c.Command(t.Context(), "sh", "-c", `mkdir "$0" && echo x >"$0/file" && chmod 640 "$0/file"`, dir))
	installed(t, c)
	list := func(host string) map[string]string {
		t.Helper()
		out, err := onAs(t, c, host, 0, `find "$1" /var/tmp /dev/shm -printf '%p\t%m %U %G %y\n'`,
			home).CombinedOutput()
		must.That(t, err == nil, "%v: %s", err, out)
		all := map[string]string{}
		for line := range strings.Lines(string(out)) {
			name, what, _ := strings.Cut(strings.TrimSpace(line), "\t")
			all[name] = what
		}
		return all
	}
	must.Run(t, onAs(t, c, "f1", 0, `mkdir "$1/others" && echo x >"$1/others/file" && chown -R 65533:65533 "$1/others"`,
		home))
	logs := ownFolder(t, c, "logs")
	before := list("f1")
	old := syscall.Umask(0)
	r := command.StartPath(t, c, filepath.Join(home, "bin/gorun"), nil, "-H", "f1", "--stage", dir, "--json-events",
		logs+"/events",
		"--output-filename", logs+"/out", "--stdout-file", logs+"/all", "echo", "hello")
	syscall.Umask(old)
	r.Want(0)
	seen := 0
	for name, what := range list("f1") {
		switch was, known := before[name]; {
		case known && was != what:
			t.Errorf("%s was %s and is %s", name, was, what)
		case !known:
			seen++
			mode, owner, _ := strings.Cut(what, " ")
			staged := filepath.Base(name) == "file" && mode == "640"
			check.That(t, strings.HasPrefix(owner, "65534 65534 ") && (strings.HasSuffix(mode, "00") || staged),
				"%s is %s", name, what)
		}
	}
	err := filepath.WalkDir(logs, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		seen++
		info, err := os.Lstat(path)
		if err == nil && info.Mode().Perm()&0o77 != 0 {
			t.Errorf("%s is %v", path, info.Mode())
		}
		return err
	})
	check.That(t, err == nil && seen >= 10, "only %d new files, %v", seen, err)
}

// gorun waits for no pipe that lies in the place of a file that the user names.
func TestPipesAreNotAwaited(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	must.OK(t, syscall.Mkfifo(pipe, 0o666))
	must.OK(t, os.WriteFile(filepath.Join(dir, "hosts"), []byte("localhost\n"), 0o600))
	for _, words := range []string{
		"--hostfile PIPE true", "-H localhost --hostfile PIPE true", "--rankfile PIPE true", "--config-file PIPE",
		"--config PIPE true", "--env-file PIPE true", "--tune PIPE true", "--app PIPE", "-configfile PIPE",
		"--multi-prog PIPE", "bench --against PIPE --plot DIR/plot.svg -np 1 allreduce",
		"doctor --against PIPE -H localhost", "hosts --hostfile PIPE", "up --hostfile PIPE",
		"cp PIPE localhost:/tmp", "cp --hostfile PIPE DIR/hosts :/tmp", "-F PIPE -H f1 true", "up -F PIPE -H f1",
		"hosts --check -F PIPE -H f1",
	} {
		t.Run(words, func(t *testing.T) {
			args := strings.Fields(strings.NewReplacer("PIPE", pipe, "DIR", dir).Replace(words))
			command.Start(t, nil, args...).Want(2, pipe, "no regular file")
		})
	}
}
