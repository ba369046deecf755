package attacks

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
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
		{"record", []string{"--record"}, job, append(folderTraps()[:3],
			trap{"link for samples", `ln -s ../../private/precious open/own/samples.jsonl.gz`, "open/own"})},
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

// A copy of gorun cp goes through no link of another user's, and takes no file of another user's
// for itself.
func TestCopiesOfOthersAreRefused(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	for _, tc := range []struct {
		name      string
		of        int    // user of the script
		script    string // in the folder above open
		to        string
		words     string // in the error; "": the copy is made
		leftAlone bool   // whether what the script made stays
	}{
		{"link", attacker, `ln -s ../private open/out`, "open/out", "not safe, others can change ", true},
		{"link above", attacker, `ln -s ../private open/out`, "open/out/new", "not safe, others can change ", true},
		{"link to the top", attacker, `ln -s / open/out`, "open/out" + c.Dir + "/private",
			"not safe, others can change ", true},
		{"own link", victim, `ln -s ../private open/out`, "open/out", "", false},
		{"file in a sticky folder", attacker, `cp -p file open/file`,
			"open", "only its owner, user 65533, can replace it", true},
		{"file with the name of the hidden one", attacker,
			`python3 -c 'from hashlib import sha256 as sum; import os
whole = sum(b"gorun file 7\n" + sum(b"secret\n").digest()).hexdigest()
os.close(os.open(f"open/.file.{whole[:16]}.gorun", os.O_CREAT, 0o600))'`,
			"open", "", false},
		{"own file that others may write", victim, `cp -p file open/file && chmod 666 open/file`, "open", "", false},
		{"own file with two names", victim, `cp -p file open/file && ln open/file open/other`, "open", "", false},
		{"own file", victim, `cp -p file open/file`, "open", "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newCommons(t, c.Dir)
			s.as(0, `rm -f file && echo secret >file && chmod 644 file && chown 65534:65534 file && chmod 1777 open`)
			s.as(tc.of, tc.script)
			inode := func() string { return s.as(0, `stat -c %i open/file 2>/dev/null || true`) }
			before := inode()
			r := command.Start(t, c, "cp", filepath.Join(c.Dir, "file"), "f1:"+filepath.Join(c.Dir, tc.to))
			code := r.Wait()
			r.NothingLeft(10 * time.Second) // the agent that refuses ends by itself
			if tc.words != "" {
				check.That(t, code == 1 && strings.Contains(r.Err.String(), tc.words), "exit code %d: %s", code, &r.Err)
				s.unharmed()
			} else {
				check.That(t, code == 0, "exit code %d: %s", code, &r.Err)
				check.Equal(t, s.as(victim, "stat -c '%u %a %h' "+tc.to+"/file"), "65534 644 1\n", "the copy")
			}
			check.That(t, before == "" || (inode() == before) == tc.leftAlone,
				"the file that was there is left alone: %v", !tc.leftAlone)
		})
	}
}

// Another user who renames folders while a job runs does not make gorun replace or remove files
// elsewhere.
func TestMetricsStayInTheirFolder(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	s.as(victim, `mkdir open/own`)
	r := command.Start(t, c, "--metrics", filepath.Join(c.Dir, "open/own/precious"), "-np", "1", "sh", "-c",
		`echo ready; until [ -e "$0" ]; do sleep .1; done`, filepath.Join(c.Dir, "open/go"))
	must.Until(t, "the rank", func() bool { return strings.Contains(r.Out.String(), "ready") })
	s.as(attacker, `mv open/own open/moved && ln -s ../private open/own && touch open/go`)
	r.Want(0)
	s.unharmed()
	check.Equal(t, s.as(victim, `ls -A open/moved`), "", "gorun has left")
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
	check.Equal(t, s.as(0, `cat open/new private/new open/a/b/new private/logs/rank.0/stdout`),
		strings.Repeat("hello\n", 4))
}
