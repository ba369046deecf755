package attacks

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
)

// commons is a folder that everyone may write to, and not sticky: the kernel protects no links
// there. Beside it are folders of the victim and of the attacker.
type commons struct {
	*testing.T
	dir string // parent of open, private and theirs
}

func newCommons(t *testing.T, dir string) *commons {
	t.Helper()
	s := &commons{t, dir}
	s.as(0,
		`rm -rf open private theirs && mkdir -m 777 open && mkdir -m 755 private theirs && echo kept | tee private/precious theirs/file >theirs/other &&
		chmod 666 theirs/* && chown -R 65534:65534 private && chown -R 65533:65533 theirs`)
	return s
}

// as runs a script as a user.
func (s *commons) as(uid int, script string) string {
	s.Helper()
	cmd := userCommand(uid, "sh", "-c", script)
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

// unharmed checks that nothing has been written to the folders of the victim and the attacker.
func (s *commons) unharmed() {
	s.Helper()
	const want = "private\nprivate/precious\ntheirs\ntheirs/file\ntheirs/other\nkept\nkept\nkept\n"
	if got := s.as(0, `find private theirs | sort && cat private/* theirs/*`); got != want {
		s.Errorf("there is %q, want %q", got, want)
	}
}

// trap is what the attacker makes below the folder open, where the victim's gorun is to write.
type trap struct {
	name   string
	script string // the attacker's, in the folder above open
	output string // the name given to gorun
}

func fileTraps() []trap {
	return []trap{
		{"link", `ln -s ../private/precious open/out`, "open/out"},
		{"link to nothing", `ln -s ../private/new open/out`, "open/out"},
		{"link to a file of the attacker", `ln -s ../theirs/file open/out`, "open/out"},
		{"pipe", `mkfifo -m 666 open/out`, "open/out"},
		{"file", `mv theirs/other open/out && ln open/out theirs/other`, "open/out"},
		{"link above", `ln -s ../private open/out`, "open/out/precious"},
		{"link above a new file", `ln -s ../private open/out`, "open/out/new"},
		{"link above a new folder", `ln -s ../private open/out`, "open/out/new/file"},
	}
}

func folderTraps() []trap {
	return []trap{
		{"folder", `mkdir -m 777 open/out`, "open/out"},
		{"link", `ln -s ../private open/out`, "open/out"},
		{"link above", `ln -s ../private open/out`, "open/out/new"},
		{"folder of a rank", `mkdir -m 777 open/own/rank.0`, "open/own"},
		{"link of a rank", `ln -s ../../private open/own/rank.0`, "open/own"},
		{"link for the index", `ln -s ../../private/precious open/own/index.json.new`, "open/own"},
		{"pipe for the index", `mkfifo -m 666 open/own/index.json.new`, "open/own"},
	}
}

// Whatever another user puts where gorun is to write a file, gorun overwrites nothing, waits for
// nobody and says so before a rank runs.
func TestOutputFilesOfOthersAreLeftAlone(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	job := []string{"-np", "1", "echo", "hello"}
	for _, writer := range []struct {
		name  string
		args  []string // before the name of the file or folder
		job   []string
		traps []trap
	}{
		{"stdout-file", []string{"--stdout-file"}, job, fileTraps()},
		{"stderr-file", []string{"--stderr-file"}, job, fileTraps()[:1]},
		{"json-events", []string{"--json-events"}, job, fileTraps()},
		{"plot", []string{"bench", "allreduce", "--max", "8", "-np", "1", "--plot"}, nil, fileTraps()},
		{"output-filename", []string{"--output-filename"}, job, folderTraps()},
		{"result-dir", []string{"--result-dir"}, job, folderTraps()[:3]},
	} {
		for _, trap := range writer.traps {
			t.Run(writer.name+"/"+trap.name, func(t *testing.T) {
				s := newCommons(t, c.Dir)
				s.as(victim, `mkdir open/own && chmod 777 open/own`)
				s.as(attacker, trap.script)
				s.refused(c, slices.Concat(writer.args, []string{filepath.Join(c.Dir, trap.output)}, writer.job)...)
			})
		}
	}
}

// A second name for a file of the victim, which the kernel lets others make on some systems, is not
// overwritten.
func TestHardLinksAreNotOverwritten(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	for _, flag := range []string{"--stdout-file", "--json-events"} {
		s := newCommons(t, c.Dir)
		s.as(0, `ln private/precious open/out`)
		s.refused(c, flag, filepath.Join(c.Dir, "open/out"), "-np", "1", "echo", "hello")
	}
}

// refused runs gorun as the victim. It refuses to write, with a hint, before anything is started.
func (s *commons) refused(c *lab.Cluster, args ...string) {
	s.Helper()
	r := command.Start(s.T, c, args...).Want(2, "not safe, others can change ", "gorun: hint: ")
	if r.Out.Len() > 0 {
		s.Errorf("it ran all the same: %s", &r.Out)
	}
	s.unharmed()
}

// The victim's own files, links and pipes are written to, also in a folder of all users.
func TestOwnOutputFilesAreWritten(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	s.as(victim, `ln -s ../private open/link && mkdir open/own && ln -s /dev/stdout open/own/stdout`)
	for _, args := range [][]string{
		{"--stdout-file", "open/new"}, {"--stdout-file", "open/new"}, {"--stdout-file", "open/link/new"},
		{"--stdout-file", "open/a/b/new"}, {"--stdout-file", "open/own/stdout"},
		{"--output-filename", "open/link/logs"}, {"--output-filename", "open/link/logs"},
		{"--json-events", "open/events"}, {"--json-events", "open/events"},
	} {
		command.Start(t, c, args[0], filepath.Join(c.Dir, args[1]), "-np", "1", "echo", "hello").Want(0)
	}
	command.Start(t, c, "--json-events", os.DevNull, "-np", "1", "true").Want(0)
	if got := s.as(0,
		`cat open/new private/new open/a/b/new private/logs/rank.0/stdout`); got != strings.Repeat("hello\n", 4) {
		t.Errorf("%q", got)
	}
}
