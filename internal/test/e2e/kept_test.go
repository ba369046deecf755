package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// keptLab is two hosts and a home whose goruns may keep them.
type keptLab struct {
	*testing.T
	hosts *lab.Cluster
	home  string
}

func newKeptLab(t *testing.T) *keptLab {
	k := &keptLab{t, lab.MustNamespaces(t, lab.Specs(2)...), t.TempDir()}
	config, err := os.OpenFile(k.hosts.ConfigFile, os.O_WRONLY|os.O_APPEND, 0)
	must.OK(t, err)
	_, err = config.WriteString("\nHost *\n  ConnectTimeout 50\n") // these tests are not about slow machines
	must.OK(t, errors.Join(err, config.Close()))
	t.Cleanup(func() {
		for _, j := range k.keepers() {
			_ = syscall.Kill(j.PID, syscall.SIGKILL)
		}
		k.none("gorun after the test", func() int { return len(command.Processes()) })
	})
	return k
}

// start starts gorun for a user whose home is k's.
func (k *keptLab) start(args ...string) *command.Run {
	return command.StartIn(k.T, k.hosts, []string{"HOME=" + k.home, "XDG_RUNTIME_DIR="}, args...)
}

// gorun runs gorun to its end, which has a code.
func (k *keptLab) gorun(code int, args ...string) *command.Run {
	k.Helper()
	r := k.start(args...)
	if got := r.Wait(); got != code {
		k.Fatalf("gorun %q: exit code %d, want %d\n%s%s", args, got, code, &r.Out, &r.Err)
	}
	return r
}

type keptJob struct {
	ID    string
	State string
	PID   int
}

func (k *keptLab) keepers() (all []keptJob) {
	var list struct{ Jobs []keptJob }
	r := k.start("ps", "--json")
	r.Wait()
	if err := json.Unmarshal([]byte(r.Out.String()), &list); err != nil {
		k.Errorf("gorun ps: %v: %s%s", err, &r.Out, &r.Err)
	}
	return slices.DeleteFunc(list.Jobs, func(j keptJob) bool { return j.State != "keeping" })
}

// logins counts the connections that a host's sshd has let in.
func (k *keptLab) logins(host string) int {
	text := must.Get(os.ReadFile(k.hosts.Host(host).Log))(k)
	return bytes.Count(text, []byte("Accepted publickey"))
}

// none waits until there is nothing of a kind.
func (k *keptLab) none(what string, count func() int) {
	k.Helper()
	must.Until(k, "the end of "+what, func() bool { return count() == 0 })
}

// usesKept reports whether a job that ended well used the kept connections to the two hosts.
func usesKept(r *command.Run) bool {
	return strings.Count(r.Err.String(), "connected already, by up-") == 2
}

// Jobs of the user use kept hosts by themselves, with nothing of another job in them, and gorun
// down ends it.
func TestKeptHostsServeJobs(t *testing.T) {
	k := newKeptLab(t)
	up := k.gorun(0, "up", "-H", "f1:2,f2:2")
	id := strings.TrimSpace(up.Out.String())
	must.That(t, strings.HasPrefix(id, "up-") && strings.Contains(up.Err.String(), "gorun down "+id),
		"up says %q, %q", &up.Out, &up.Err)
	all := k.keepers()
	must.That(t, len(all) == 1 && all[0].ID == id, "gorun ps lists %+v", all)
	before := k.logins("f1") + k.logins("f2")

	// A job that has a secret, another directory and other limits, and does harm to what it can
	// reach, runs beside the others.
	beside := k.start("-np", "2", "-H", "f1,f2", "-x", "CANARY=of the first job", "--wdir", "/", "sh", "-c",
		"umask 077; ulimit -n 50; echo ready; exec sleep 1000")
	must.Until(k, "the first job", func() bool { return strings.Count(beside.Out.String(), "ready") == 2 })

	script := `echo dir $PWD; echo umask $(umask); ulimit -a | sed "s/^/limit /"; grep -E "^(Umask|Uid|Gid|Groups|Sig(Blk|Ign|Cgt)|Cap|NoNewPrivs|Seccomp|Cpus_allowed|Mems_allowed)" /proc/self/status | sed "s/^/status /"; ` +
		`ls /proc/self/fd | sed "s/^/fd /"; env | sort | sed "s/^/env /"`
	job := func(more ...string) []string {
		r := k.gorun(0, slices.Concat([]string{"-v", "-np", "2", "-H", "f1,f2", "--prefix", "rank"}, more,
			[]string{"sh", "-c", script})...)
		check.That(t, usesKept(r) == (more == nil), "with %q gorun says:\n%s", more, &r.Err)
		lines := strings.Split(strings.TrimSpace(r.Out.String()), "\n")
		slices.Sort(lines)
		return lines
	}
	first := job()
	second := job()
	got := k.logins("f1") + k.logins("f2")
	check.That(t, got == before, "jobs on kept hosts logged in %d times", got-before)
	cold := job("--no-kept")
	again := job("--no-kept")
	for _, lines := range [][]string{first, second} {
		check.That(t, !strings.Contains(strings.Join(lines, "\n"), "CANARY"),
			"a job knows of another: %s", strings.Join(lines, "\n"))
		compareWorlds(t, lines, cold, again)
	}
	token := func(lines []string) string {
		return lines[slices.IndexFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, "[0] env GORUN_TOKEN=")
		})]
	}
	check.That(t, token(first) != token(second), "two jobs have the same %s", token(first))

	// Files go over the same connections.
	r := k.gorun(0, "cp", "-v", command.Binary("gorun"), "f1,f2:copied")
	check.That(t, usesKept(r) && strings.Contains(r.Err.String(), "copied to 2 hosts"),
		"gorun cp on kept hosts says:\n%s", &r.Err)

	// An agent that is killed takes down its own job only.
	victim := k.start("-np", "2", "-H", "f1,f2", "sleep", "1000")
	var ranks []int
	must.Until(k, "the victim", func() bool {
		ranks = slices.DeleteFunc(lab.Processes(victim.Mark), func(pid int) bool {
			return !strings.HasPrefix(command.ProcFile(pid, "cmdline"), "sleep")
		})
		return len(ranks) == 2
	})
	_ = syscall.Kill(lab.Parent(ranks[0]), syscall.SIGKILL)
	code := victim.Wait()
	check.That(t, code == 125, "a job whose agent was killed ended with %d:\n%s", code, &victim.Err)
	n := strings.Count(beside.Out.String(), "\n")
	check.That(t, n == 2 && beside.Err.String() == "", "the job beside it printed %d lines and %q", n, &beside.Err)

	// Jobs go on after gorun down, and the keeper ends after the last of them.
	k.gorun(0, "down")
	r = k.gorun(0, "-v", "-H", "f1,f2", "true")
	check.That(t, !usesKept(r), "a job uses hosts after gorun down:\n%s", &r.Err)
	all = k.keepers()
	check.That(t, len(all) == 1, "with a job on its hosts, %+v keep them", all)
	must.OK(t, beside.Cmd.Process.Signal(os.Interrupt))
	if code := beside.Wait(); code != 130 {
		t.Errorf("the first job ended with %d:\n%s", code, &beside.Err)
	}
	k.none("keepers", func() int { return len(k.keepers()) })
	k.none("agents and residents", func() int { return len(command.Processes()) })
}

// compareWorlds compares what ranks see on a kept host with what those of two jobs of the same
// command saw on hosts that were not kept. Values that differ between those two jobs only have to
// be there.
func compareWorlds(t *testing.T, kept, cold, again []string) {
	t.Helper()
	name := func(line string) string {
		line, _, _ = strings.Cut(line, "=")
		return line
	}
	of := func(lines []string) map[string]string {
		all := map[string]string{}
		for _, l := range lines {
			if strings.Contains(l, " env ") {
				all[name(l)] = l
				continue
			}
			all[l] = l
		}
		return all
	}
	got := of(kept)
	one := of(cold)
	two := of(again)
	for key, want := range one {
		check.That(t, want != two[key] || got[key] == want, "on a kept host %q is %q", want, got[key])
	}
	for key := range got {
		if _, known := one[key]; !known {
			t.Errorf("only on a kept host: %q", got[key])
		}
	}
}

// A host whose connection dies, a keeper that is killed, and hosts that are reached by another way
// cost no job more than the connection.
func TestKeptHostsThatAreLost(t *testing.T) {
	k := newKeptLab(t)
	k.gorun(0, "up", "-H", "f1,f2")
	job := func() *command.Run { return k.gorun(0, "-v", "-H", "f1,f2", "true") }
	if r := job(); !usesKept(r) {
		t.Fatalf("gorun says:\n%s", &r.Err)
	}

	// Another way to a host is another connection.
	config := filepath.Join(t.TempDir(), "config")
	text, err := os.ReadFile(k.hosts.ConfigFile)
	if err == nil {
		err = os.WriteFile(config, append([]byte("Host f2\n  CertificateFile /nowhere\nHost *\n"), text...), 0o600)
	}
	must.OK(t, err)
	r := k.gorun(0, "-v", "-F", config, "-H", "f1,f2", "true")
	check.That(t, strings.Contains(r.Err.String(), "f1: connected already") &&
		!strings.Contains(r.Err.String(), "f2: connected already"),
		"with another way to f2 gorun says:\n%s", &r.Err)

	// A host whose key is not known any more is not used, and the job says why.
	known := must.Get(os.ReadFile(k.hosts.KnownHosts))(t)
	must.OK(t, os.WriteFile(k.hosts.KnownHosts, nil, 0o644))
	r = k.gorun(125, "-H", "f1,f2", "true")
	check.That(t, strings.Contains(r.Err.String(), "host key"), "without known_hosts gorun says:\n%s", &r.Err)
	must.OK(t, os.WriteFile(k.hosts.KnownHosts, known, 0o644))

	// A connection that ends is replaced.
	logins := k.logins("f1")
	for _, pid := range k.hosts.Inside("f1") {
		if title := command.ProcFile(pid, "cmdline"); strings.Contains(title, "@notty") ||
			strings.Contains(title, "[priv]") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	job() // it connects by itself, or finds the new connection
	must.Until(k, "a new connection", func() bool { return k.logins("f1") > logins })
	must.Until(k, "a job that uses it", func() bool { return usesKept(job()) })

	// Jobs end with a keeper that is killed, and what it leaves stops nobody.
	running := k.start("-H", "f1,f2", "sh", "-c", "echo ready; exec sleep 1000")
	must.Until(k, "the job", func() bool { return strings.Count(running.Out.String(), "ready") == 2 })
	keeper := k.keepers()[0]
	must.OK(t, syscall.Kill(keeper.PID, syscall.SIGKILL))
	if code := running.Wait(); code != 125 || !strings.Contains(running.Err.String(), keeper.ID+
		", which kept the connection, has ended") || !strings.Contains(running.Err.String(),
		"hint: gorun up keeps the hosts again") {
		t.Errorf("without its keeper a job ends with %d:\n%s", code, &running.Err)
	}
	k.none("agents and residents", func() int { return len(command.Processes()) })
	if r := job(); usesKept(r) {
		t.Errorf("with a dead keeper gorun says:\n%s", &r.Err)
	}
	left, _ := filepath.Glob(filepath.Join(k.home, ".local/state/gorun/up-*.sock"))
	check.That(t, left == nil, "%q are left", left)
}

// A run keeps its hosts with --keep until nobody has used them for a time, and gorun up replaces
// what it did for the same hosts.
func TestKeepersAreReplacedAndEnd(t *testing.T) {
	k := newKeptLab(t)
	first := k.gorun(0, "-v", "--keep", "1h", "-H", "f1", "true")
	before := k.keepers()
	must.That(t, len(before) == 1 && strings.Contains(first.Err.String(), "f1: connected already, by "+before[0].ID),
		"%+v keep hosts:\n%s", before, &first.Err)
	k.gorun(0, "--keep", "1h", "-H", "f1", "true")
	if now := k.keepers(); !slices.Equal(now, before) {
		t.Errorf("%+v keep the same host again", now)
	}
	running := k.start("-H", "f1", "sh", "-c", "echo ready; exec sleep 1000")
	must.Until(k, "the job", func() bool { return strings.Contains(running.Out.String(), "ready") })
	up := k.gorun(0, "up", "-H", "f1,f2")
	check.That(t, strings.Contains(up.Err.String(), "it replaces "+before[0].ID), "gorun up says:\n%s", &up.Err)
	must.OK(t, running.Cmd.Process.Signal(os.Interrupt))
	code := running.Wait()
	check.That(t, code == 130, "the job of the first keeper ended with %d:\n%s", code, &running.Err)
	must.Until(k, "one keeper", func() bool {
		now := k.keepers()
		return len(now) == 1 && now[0].ID == strings.TrimSpace(up.Out.String())
	})
	r := k.gorun(125, "exec", strings.TrimSpace(up.Out.String()), "true")
	check.That(t, strings.Contains(r.Err.String(), "has no ranks"), "gorun exec says:\n%s", &r.Err)
	k.gorun(0, "down", "--now")
	k.none("keepers", func() int { return len(k.keepers()) })
	k.gorun(0, "--keep", "1ms", "-H", "f1,f2", "true")
	k.gorun(0, "up", "-H", "f1", "--for", "1ms")
	k.gorun(0, "up", "-H", "f1", "--keep", "1ms")
	k.none("keepers that end by themselves", func() int { return len(k.keepers()) })
	k.none("agents and residents", func() int { return len(command.Processes()) })
}
