package faults

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// C7: a host disappears silently: its network fails, then all of its processes die at once. Goal:
// noticed within 6 s, T_net and a heartbeat, whether ranks print or not.
func TestVanishedHostIsNamed(t *testing.T) {
	t.Parallel()
	b := namespaces(t, 3)
	for _, tc := range []struct{ name, host, script string }{
		{"with data in flight", "f2", "echo up; while echo more; do sleep .01; done"},
		{"in silence", "f3", dies},
	} {
		b.row(tc.name, func(t *testing.T, b *harness) {
			j, w := b.gorun("-np", "2", "-H", "f1,"+tc.host, "--prefix", "none", "sh", "-c", tc.script)
			b.ups(j, 2)
			groups := fmt.Sprintf("gorun-%s-*", namespace(b.c.Host(tc.host).PID, "pid"))
			time.Sleep(1100 * time.Millisecond) // heartbeats go both ways
			b.must(b.c.Cut(t.Context(), tc.host))
			at := time.Now()
			b.must(send(b.c.Inside(tc.host), syscall.SIGKILL))
			for _, group := range cgroups(groups) { // of a machine of its own they would go with it
				b.within(5*time.Second, "an empty cgroup", func() bool {
					return os.Remove(strings.TrimPrefix(group, "cgroup ")) == nil
				})
			}
			v := b.judge(w, j, at, Expect{
				Codes: []int{125},
				Cause: "host " + tc.host + ": lost the connection to the agent: ",
				End:   7 * time.Second,
				Clean: 7 * time.Second,
			})
			t.Logf("%d ms: %s", v.EndMS, v.Cause)
		})
	}
}

// G4: the launcher's machine loses power: no FIN, no RST, no gorun. Goal: its hosts are clean
// within 12 s, the grace of 5 s included.
func TestHostsCleanUpAfterPowerLossOfTheLauncher(t *testing.T) {
	t.Parallel()
	b := namespaces(t, 2)
	hosts := []string{"f1", "f2"}
	j, w := b.gorun("-np", "4", "-H", "f1:2,f2:2", "--prefix", "none", binary("rank"), "-ignore-term", "-daemon")
	b.await(j, "the ranks", func() bool { return strings.Count(j.Out.String(), "line") > 100 })
	for _, host := range hosts {
		b.must(b.c.Part(t.Context(), "f0", host))
	}
	at := time.Now()
	b.must(j.Cmd.Process.Kill())
	v := w.judge(j, at, Expect{
		Codes: []int{137},
		End:   soon,
		Clean: 15 * time.Second,
		Ranks: 4,
		Torn:  true,
	})
	for _, host := range hosts { // ends sshd's own sessions, which are not judged
		b.must(errors.Join(b.c.Unpart(t.Context(), "f0", host), b.c.Reset(t.Context(), "f0", host)))
	}
	for _, broken := range append(v.Violations, w.residue(j, 15*time.Second)...) {
		t.Errorf("%s", broken)
	}
	t.Logf("clean after %d ms", v.CleanMS)
}

// terminal is a pseudo terminal. Processes open name; closing master closes the window.
func terminal(t *testing.T) (master *os.File, name string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		lab.Skip(t, fmt.Sprintf("needs terminals: %v", err))
	}
	t.Cleanup(func() { master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	must.OK(t, err)
	return master, fmt.Sprintf("/dev/pts/%d", number)
}

// B3: the terminal that gorun reads from and writes to is closed. Goal: the grace and 3 s.
func TestClosedTerminalStopsTheJob(t *testing.T) {
	t.Parallel()
	b := namespaces(t, 2)
	// The launcher leads a session on the terminal, as after exec in a shell.
	on := func(t *testing.T, redirections string, words ...string) (*Job, *Watch, *os.File) {
		t.Helper()
		master, tty := terminal(t)
		become := `tty=$1; shift; exec setsid --ctty sh -c 'exec "$@" ` + redirections +
			`' sh "$@" <"$tty" 3>&1 4>&2 >"$tty" 2>&1`
		argv := append([]string{"sh", "-c", become, "sh", tty}, words...)
		j, w := b.run(append(argv, "-F", "{config}", "-np", "4", "-H", "f1:2,f2:2", "--prefix", "none", "--grace", "2",
			binary("rank"), "-ignore-term")...)
		return j, w, master
	}
	b.row("and that is the end", func(t *testing.T, b *harness) {
		j, w, master := on(t, "3>&- 4>&-", binary("gorun"))
		var seen bytes.Buffer
		for page := make([]byte, 4096); strings.Count(seen.String(), "line") < 100; {
			n, err := master.Read(page)
			must.That(t, err == nil, "%v; %s", err, &seen)
			seen.Write(page[:n])
		}
		at := time.Now()
		master.Close()
		v := b.judge(w, j, at, Expect{Codes: []int{129}, End: 5 * time.Second, Clean: 5 * time.Second})
		check.That(t, v.EndMS >= 1500, "it ended after %d ms, before its ranks had their grace", v.EndMS)
	})
	b.row("under nohup it goes on", func(t *testing.T, b *harness) {
		j, w, master := on(t, ">&3 2>&4 3>&- 4>&-", "nohup", binary("gorun"))
		lines := func() int { return strings.Count(j.Out.String(), "line") }
		b.await(j, "the ranks", func() bool { return lines() > 100 })
		master.Close()
		time.Sleep(time.Second)
		before := lines()
		b.await(j, "more lines", func() bool { return lines() > before+400 })
		b.end(w, j)
		check.That(t, !strings.Contains(j.Err.String(), "stopping"), "%s", &j.Err)
	})
}

// memoryGroup makes a cgroup with a memory limit in bytes.
func memoryGroup(t *testing.T, bytes int) string {
	t.Helper()
	tree := "/sys/fs/cgroup/memory"
	limit := "memory.limit_in_bytes"
	if _, err := os.Stat(tree); err != nil {
		tree = "/sys/fs/cgroup"
		limit = "memory.max"
	}
	group := filepath.Join(tree, fmt.Sprintf("faults-%d-%d", os.Getpid(), bytes))
	if err := os.Mkdir(group, 0o755); err != nil {
		lab.Skip(t, fmt.Sprintf("needs cgroups of memory: %v", err))
	}
	t.Cleanup(func() {
		must.Until(t, "the end of "+group, func() bool { return os.Remove(group) == nil })
	})
	must.OK(t, os.WriteFile(filepath.Join(group, limit), fmt.Append(nil, bytes), 0o644))
	_ = os.WriteFile(filepath.Join(group, "memory.swap.max"), []byte("0"), 0o644) // v1 has none
	return group
}

// B12: gorun's memory is bounded. 32 MiB suffice for a flood through it; with too little the kernel
// kills it, which is B1.
func TestLauncherMemoryIsBounded(t *testing.T) {
	t.Parallel()
	b := namespaces(t, 2)
	in := func(t *testing.T, group string, words ...string) (*Job, *Watch) {
		t.Helper()
		argv := []string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, group, binary("gorun"), "-F",
			"{config}", "-np", "4", "-H", "f1:2,f2:2", "--prefix", "none"}
		return b.run(append(argv, words...)...)
	}
	b.row("32 MiB", func(t *testing.T, b *harness) {
		j, w := in(t, memoryGroup(t, 32<<20), "sh", "-c", "yes 0123456789abcdef | head -c 17000000; echo last")
		at := time.Now()
		v := b.judge(w, j, at, Expect{Codes: []int{0}, End: 60 * time.Second, Clean: 60 * time.Second})
		check.Equal(t, len(j.Out.String()), 4*(17000000+5), "bytes came, with a peak of", v.RSS, "KiB:", &j.Err)
	})
	b.row("5 MiB", func(t *testing.T, b *harness) {
		j, w := in(t, memoryGroup(t, 5<<20), "sh", "-c", "trap '' TERM; yes")
		b.await(j, "the kernel to kill it", func() bool {
			select {
			case <-j.Ended():
				return true
			default:
				return false
			}
		})
		b.judge(w, j, time.Now(), Expect{
			Codes: []int{137},
			End:   soon,
			Clean: 9 * time.Second,
			Torn:  true,
		})
	})
}
