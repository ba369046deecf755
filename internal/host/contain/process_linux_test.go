package contain

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func TestParseStat(t *testing.T) {
	const tail = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21"
	for name, tc := range map[string]struct{ stat, state, name string }{ // no state: malformed
		"plain":                   {"7 (sh) S" + tail, "S", "sh"},
		"a name with parentheses": {"7 (a) Z 9 (b) R" + tail, "R", "a) Z 9 (b"},
		"a name with a line end":  {"7 (a\n) S" + tail, "S", "a\n"},
		"no name":                 {"7 () Z" + tail, "Z", ""},
		"with a line end":         {"7 (sh) S" + tail + "\n", "S", "sh"},
		"empty":                   {"", "", ""},
		"no parentheses":          {"7 sh S" + tail, "", ""},
		"cut short":               {"7 (sh) S 1 2 3", "", ""},
		"a parent that is no pid": {"7 (sh) S x 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19", "", ""},
		"a group that is no pid":  {"7 (sh) S 1 x 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19", "", ""},
		"a start that is no time": {"7 (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 -1", "", ""},
	} {
		var want Process
		if tc.state != "" {
			want = Process{
				PID:        7,
				Parent:     1,
				Group:      2,
				Foreground: 5,
				State:      tc.state[0],
				Started:    4242,
				Name:       tc.name,
			}
		}
		got, err := parseStat(7, []byte(tc.stat))
		check.That(t, got == want && (err == nil) == (tc.state != ""), "%s: %+v, %v", name, got, err)
	}
}

func FuzzParseStat(f *testing.F) {
	own := must.Get(os.ReadFile("/proc/self/stat"))(f)
	f.Add(own)
	f.Add([]byte("1 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"))
	f.Add([]byte("(((() ) ) )"))
	f.Fuzz(func(t *testing.T, stat []byte) {
		exiting(stat)
		p, err := parseStat(7, stat)
		must.That(t, (err == nil || p == (Process{})) && (err != nil || p.PID == 7 && p.State != 0), "%+v, %v", p, err)
	})
}

func TestEnding(t *testing.T) {
	for name, tc := range map[string]struct {
		stat string
		want bool
	}{
		"it runs":                {"7 (sh) R 1 2 3 4 5 4194304 7 8", false},
		"it leaves":              {"7 (sh) R 1 2 3 4 5 4194308 7 8", true},
		"its name is like stats": {"7 (a) R 1 2 3 4 5 4 7) R 1 2 3 4 5 4194304 7 8", false},
		"cut short":              {"7 (sh) R 1 2 3 4 5", false},
		"flags that are none":    {"7 (sh) R 1 2 3 4 5 x 7", false},
	} {
		check.Equal(t, exiting([]byte(tc.stat)), tc.want, name)
	}
	child := exec.Command("cat")
	stdin := must.Get(child.StdinPipe())(t)
	must.OK(t, child.Start())
	check.That(t, !Ending(child.Process.Pid), "a process that reads is ending")
	stdin.Close()
	must.Until(t, "the end of a process whose input has ended", func() bool { return Ending(child.Process.Pid) })
	check.OK(t, child.Wait())
	check.That(t, Ending(child.Process.Pid), "a process that is no more is not ending")
}

func TestReadProcessKnowsItself(t *testing.T) {
	p, err := ReadProcess(os.Getpid())
	check.That(t, err == nil && p.PID == os.Getpid() && p.Parent == os.Getppid() && p.Started != 0, "%+v, %v", p, err)
	check.Error(ReadProcess(1<<30)).Any(t, "found a process that cannot be")
}

// tree is a process tree below a subreaper of its own.
type tree struct {
	root   int
	mark   string
	stdin  io.Closer
	stdout *bufio.Reader
}

// startTree runs script below a new subreaper, and waits until size processes or
// more are there. They are gone when the test ends.
func startTree(t *testing.T, script string, size int) tree {
	t.Helper()
	mark := lab.NewMark()
	cmd := exec.Command("/proc/self/exe", treeWord, script)
	cmd.Env = append(os.Environ(), mark, lab.QuickExit)
	stdin := must.Get(cmd.StdinPipe())(t)
	stdout := must.Get(cmd.StdoutPipe())(t)
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()
		check.OK(t, cmd.Wait())
		lab.NoneLeft(t, mark)
	})
	root := tree{cmd.Process.Pid, mark, stdin, bufio.NewReader(stdout)}
	must.Until(t, fmt.Sprintf("%d processes below the root", size), func() bool {
		return len(Descendants(root.root)) >= size
	})
	return root
}

// Each tree is the shell and what it starts. "exec sleep" keeps a shell from
// waiting beside its child.
func TestTreesAreFoundAndKilled(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		size   int
		sleeps int // of these processes
	}{
		"children":                  {"sleep 1000 & sleep 1000 & wait", 3, 2},
		"grandchildren":             {"sh -c 'sh -c \"sleep 1000; :\"; :'; :", 4, 1},
		"another session":           {"setsid sleep 1000 & wait", 2, 1},
		"forked twice, shell ended": {"(setsid sleep 1000 &) & (sleep 1000 &)", 2, 2},
		"deaf to TERM and stopped":  {"trap '' TERM HUP INT; sh -c 'kill -STOP $$; sleep 1000; :' & wait", 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := startTree(t, tc.script, tc.size)
			must.Until(t, "the last process to start", func() bool {
				all := Descendants(root.root)
				sleeps := 0
				for _, p := range all {
					if p.Name == "sleep" {
						sleeps++
					}
				}
				return len(all) == tc.size && sleeps == tc.sleeps
			})
			found := Descendants(root.root)
			for _, p := range found {
				again, err := ReadProcess(p.PID)
				check.That(t, err == nil && again.Started == p.Started, "%+v is now %+v, %v", p, again, err)
			}
			check.Equal(t, len(killTree(root.root)), tc.size, "killed")
			must.Until(t, "the end of the tree", func() bool { return len(Descendants(root.root)) == 0 })
		})
	}
}

func TestSweepLeavesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		size   int
	}{
		"nothing to do":     {"exit", 0},
		"daemons":           {"for i in 1 2 3; do (setsid sleep 1000 &); done", 3},
		"a wide tree":       {"for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done; wait", 11},
		"one that forks on": {"f() { sleep 0.01; (f &); exit; }; (f &); (f &); exec sleep 1000", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := startTree(t, tc.script, tc.size)
			root.stdin.Close()
			line, err := root.stdout.ReadString('\n')
			check.That(t, line == "swept\n", "the root said %q, %v", line, err)
			if left := lab.Processes(root.mark); slices.ContainsFunc(left, func(pid int) bool {
				return pid != root.root
			}) {
				t.Errorf("left behind, besides %d: %v", root.root, left)
			}
		})
	}
}

func TestKillSparesAStranger(t *testing.T) {
	root := startTree(t, "exec sleep 1000", 1)
	p := Descendants(root.root)[0]
	other := p
	other.Started++ // whoever had the pid before
	other.kill()
	time.Sleep(20 * time.Millisecond) // a wrong kill would have happened by now
	_, err := ReadProcess(p.PID)
	check.That(t, err == nil && len(Descendants(root.root)) == 1, "a process was killed for another that had its pid")
}
