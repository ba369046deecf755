package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

// These tests run over real sshd on loopback addresses, as this user.

// besidesOneMachine returns stderr without the line that f1 and f2 are one machine, which must be there once.
func besidesOneMachine(r *run) string {
	r.t.Helper()
	hostname, _ := os.Hostname()
	line := "gorun: f1 and f2 are one machine (" + hostname + "): their ranks share its cores and GPUs\n"
	if n := strings.Count(r.err.String(), line); n != 1 {
		r.t.Errorf("%d times %q in stderr %q", n, line, &r.err)
	}
	return strings.Replace(r.err.String(), line, "", 1)
}

func TestTwoHostsOverSSH(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	r := start(t, c, "-np", "4", "-H", "f1:2,f2:2", "sh", "-c", "echo $GORUN_RANK $GORUN_HOSTNAME $GORUN_LOCAL_RANK/$GORUN_LOCAL_SIZE $GORUN_CROSS_RANK/$GORUN_CROSS_SIZE").want(0)
	got := r.lines()
	slices.Sort(got)
	want := []string{"f1:0: 0 f1 0/2 0/2", "f1:1: 1 f1 1/2 0/2", "f2:2: 2 f2 0/2 1/2", "f2:3: 3 f2 1/2 1/2"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := besidesOneMachine(r); got != "" {
		t.Errorf("stderr: %s", got)
	}
	t.Run("more ranks than slots", func(t *testing.T) {
		r := start(t, c, "-np", "8", "-H", "f1:2,f2:2", "hostname").want(0)
		count := map[string]int{}
		for _, line := range r.lines() {
			count[line[:2]]++
		}
		if count["f1"] != 4 || count["f2"] != 4 || strings.Count(besidesOneMachine(r), "\n") != 1 {
			t.Errorf("%v, stderr %q", count, &r.err)
		}
		start(t, c, "-np", "8", "-H", "f1:2,f2:2", "--no-oversubscribe", "hostname").want(2, "8 ranks need 8 slots, but the hosts have 4", "-np 4")
	})
	t.Run("hostfile", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "hosts")
		if err := os.WriteFile(file, []byte("# mine\nf1 slots=1\n\nf2:2 # two\nf1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if r := start(t, c, "--hostfile", file, "true").want(0); besidesOneMachine(r) != "" {
			t.Errorf("stderr: %s", &r.err)
		}
		if r := start(t, c, "-hostfile", file, "--dry-run", "true").want(0); !strings.HasPrefix(r.out.String(), "4 ranks on 2 hosts\n  f1  2 slots, ranks 0-1\n") {
			t.Errorf("plan: %s", &r.out)
		}
	})
	t.Run("secrets stay", func(t *testing.T) {
		env := []string{"MY_API_KEY=canary", "E2E_OPEN=yes"}
		r := startIn(t, c, env, "--prefix", "none", "-np", "1", "-H", "f1", "sh", "-c", "echo $MY_API_KEY/$E2E_OPEN").want(0)
		if r.out.String() != "/yes\n" {
			t.Errorf("got %q", &r.out)
		}
		r = startIn(t, c, env, "--prefix", "none", "-np", "1", "-H", "f1", "-x", "MY_API_KEY", "sh", "-c", "echo $MY_API_KEY").want(0)
		if r.out.String() != "canary\n" {
			t.Errorf("-x: got %q", &r.out)
		}
	})
	t.Run("stdin", func(t *testing.T) {
		r := startIn(t, c, nil, "-np", "2", "-H", "f2,f1", "sh", "-c", "cat | wc -c") // its stdin is /dev/null
		r.want(0)
	})
	t.Run("large output", func(t *testing.T) {
		r := start(t, c, "--prefix", "none", "-np", "2", "-H", "f1,f2", "head", "-c", "30000000", "/dev/zero").want(0)
		if r.out.Len() != 60000000 {
			t.Errorf("%d bytes", r.out.Len())
		}
	})
}

func TestExitCodesOverSSH(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	for _, tc := range []struct {
		script string
		code   int
		says   string
	}{
		{"[ $RANK = 3 ] && exit 3; exec sleep 60", 3, "rank 3 on f2 exited with code 3"},
		{"[ $RANK = 1 ] && kill -KILL $$; exec sleep 60", 137, "rank 1 on f1 was killed by signal 9"},
	} {
		r := start(t, c, "-np", "4", "-H", "f1:2,f2:2", "sh", "-c", tc.script).want(tc.code, tc.says)
		if r.took > 5*time.Second {
			t.Errorf("%q: took %v", tc.script, r.took)
		}
	}
}

func TestBadHostsAreAllListed(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(3)...)
	// known_hosts has another key for f2, f3 is down, and nohost does not exist.
	spoilHostKey(t, c, "f2")
	if err := syscall.Kill(c.Host("f3").PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r := start(t, c, "-np", "4", "-H", "f1,f2,f3,nohost.invalid", "true").want(125, "error: f2", "host key", c.KnownHosts, "error: f3 (", "): connection refused", "nohost.invalid: ")
	if strings.Contains(r.err.String(), "error: f1") {
		t.Errorf("f1 is fine: %s", &r.err)
	}
	if r.took > 15*time.Second {
		t.Errorf("took %v", r.took)
	}
}

// spoilHostKey replaces a host's key in known_hosts by another host's.
func spoilHostKey(t *testing.T, c *lab.Cluster, name string) {
	t.Helper()
	text, err := os.ReadFile(c.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	host, other := c.Host(name), c.Host("f1")
	if name == "f1" {
		other = c.Host("f2")
	}
	spoilt := strings.ReplaceAll(string(text), host.Keys[0], other.Keys[0])
	if spoilt == string(text) {
		t.Fatal("known_hosts does not hold the key")
	}
	if err := os.WriteFile(c.KnownHosts, []byte(spoilt), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestUnknownHostKeyNeedsConsent(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(1)...)
	if err := os.WriteFile(c.KnownHosts, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, c, "-H", "f1", "true").want(125, "error: f1 (", "SHA256:", "--host-keys=accept-new")
	start(t, c, "-H", "f1", "--host-keys", "accept-new", "true").want(0)
	start(t, c, "-H", "f1", "true").want(0)
}

func TestRefusedKeyNamesWhatWasTried(t *testing.T) {
	c := lab.MustLoopback(t, lab.Spec{Options: []string{"AuthorizedKeysFile none"}})
	start(t, c, "-H", "f1", "true").want(125, "error: f1 (", "SHA256:", "hint:")
}

func TestMissingThingsNameTheHost(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	start(t, c, "-H", "f1,f2", "no-such-program").want(127, "f1, f2: ", "no-such-program")
	start(t, c, "-H", "f1,f2", "--wdir", "/no/such/dir", "true").want(125, "f1, f2: ", "/no/such/dir")
}

func TestMixOfLocalAndSSH(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(1)...)
	r := start(t, c, "--prefix", "none", "-np", "2", "-H", "localhost,f1", binary("allreduce")).want(0)
	if n := strings.Count(r.out.String(), "the sum is 1\n"); n != 2 {
		t.Errorf("%d ranks have the sum: %s", n, &r.out)
	}
}

func TestNothingSurvivesAnyKill(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	// Every rank leaves a child in another session.
	script := "(SETSID=1 setsid sleep 300 >/dev/null 2>&1 </dev/null &); echo up; exec sleep 300"
	for _, tc := range []struct {
		victim string // in its command line
		code   int
		says   string
	}{
		{"sleep\x00300", 137, "was killed by signal 9"},
		{"__serve", 125, "host f"},
		{"__agent", 125, "host f"},
		{"", 137, ""}, // gorun itself
	} {
		t.Run("kill "+tc.victim, func(t *testing.T) {
			r := start(t, c, "-np", "4", "-H", "f1:2,f2:2", "sh", "-c", script)
			await(t, "the ranks", func() bool { return strings.Count(r.out.String(), "up") == 4 })
			victim := r.cmd.Process.Pid
			if tc.victim != "" {
				victim = findVictim(t, r, tc.victim)
			}
			if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed := time.Now()
			if code := r.wait(); code != tc.code || !strings.Contains(r.err.String(), tc.says) {
				t.Errorf("exit code %d, want %d; stderr %q", code, tc.code, &r.err)
			}
			r.nothingLeft(7*time.Second - time.Since(killed))
		})
	}
}

// findVictim returns a rank (not its daemonized child), an agent or a guard.
func findVictim(t *testing.T, r *run, word string) int {
	t.Helper()
	if strings.HasPrefix(word, "__") {
		for _, pid := range gorunProcesses() {
			if line := procFile(pid, "cmdline"); strings.Contains(line, word) {
				return pid
			}
		}
	}
	for _, pid := range lab.Processes(r.mark) {
		// Ranks and their daemonized children lead sessions, but only a rank's parent is an agent.
		if strings.Contains(procFile(pid, "cmdline"), word) && !strings.Contains(procFile(pid, "environ"), "SETSID") {
			return pid
		}
	}
	t.Fatalf("no process with %q", word)
	return 0
}
