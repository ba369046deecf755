package faults

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Rows D: no rank starts anywhere until every agent is ready, and the failures of all hosts are
// reported together.

// on runs a program as root on a host, to harm it.
func (b *harness) on(host, script string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := b.c.On(ctx, host, "sh", "-c", script).CombinedOutput()
	must.That(b.t, err == nil, "%s on %s: %v: %s", script, host, err, out)
}

// lingering is how long agents of healthy hosts may remain. Goal: 1 s.
const lingering = 3 * time.Second

// refused checks that a job does not start, that all of its error lines have the expected text, and
// that nothing ran or remains for longer than clean.
func (b *harness) refused(j *Job, w *Watch, limit, clean time.Duration, says ...string) {
	b.t.Helper()
	began := time.Now()
	<-j.Ended()
	b.judge(w, j, j.at, Expect{Codes: []int{125}, End: 2 * time.Second, Clean: clean})
	took := j.at.Sub(began)
	check.That(b.t, took <= limit, "took %v, want %v at most", took, limit)
	for _, word := range says {
		check.That(b.t, regexp.MustCompile(word).MatchString(j.Err.String()),
			"stderr does not match %q: %s", word, &j.Err)
	}
	check.Equal(b.t, j.Out.String(), "", "a rank ran")
}

// D1: hosts are unreachable in five ways. Goals: silent 10 s, unreachable 3.5 s, refused 5 s, no
// such name 5 s, hanging name servers 5 s.
func TestUnreachableHostsAreNamedInTime(t *testing.T) {
	t.Parallel()
	lab.Need(t, "nft")
	b := namespaces(t, 4)
	b.on("f2", "nft add table inet t && nft 'add chain inet t in { type filter hook input priority 0; policy drop; }'")
	b.must(b.c.Cut(t.Context(), "f3"))
	b.on("f4", fmt.Sprintf("kill $(cat %s/f4/sshd.pid)", b.c.Dir))
	// f0 has no name server; the one that hangs is f2.
	resolv := filepath.Join(b.c.Dir, "resolv.conf")
	b.must(os.WriteFile(resolv, []byte("nameserver "+b.c.Host("f2").Addr+"\n"), 0o644))
	must.Run(t, b.c.Command(t.Context(), "mount", "--bind", resolv, "/etc/resolv.conf"))
	silent := `f2 \(10\.77\.[0-9.]+:22\): cannot be reached: no answer in time|f2: cannot be reached: no answer in time`
	unreachable := `f3: cannot be reached: .*no route to host`
	refused := `f4: connection refused`
	hanging := `nosuchhost: looking its address up: name servers: no answer in time`
	var wg sync.WaitGroup
	for hosts, tc := range map[string]struct {
		limit time.Duration
		says  []string
	}{
		"f1,f2":                    {13 * time.Second, []string{silent, "ping f2"}},
		"f1,f3":                    {7 * time.Second, []string{unreachable}},
		"f1,f4":                    {7 * time.Second, []string{refused, "start sshd on that host"}},
		"f1,nosuchhost":            {8 * time.Second, []string{hanging, "/etc/resolv.conf"}},
		"f1,f2,f3,f4,nosuchhost:2": {13 * time.Second, []string{silent, unreachable, refused, hanging}},
	} {
		j, w := b.gorun("-H", hosts, "echo", "ran")
		wg.Go(func() {
			<-j.Ended()
			for _, word := range append(tc.says, "^gorun: error: (f[234]|nosuchhost)") {
				check.That(t, regexp.MustCompile("(?m)"+word).MatchString(j.Err.String()),
					"%s: stderr does not match %q: %s", hosts, word, &j.Err)
			}
			if took := j.at.Sub(j.began); took > tc.limit || j.code != 125 || j.Out.String() != "" {
				t.Errorf("%s: %v, exit code %d, %q", hosts, took, j.code, &j.Out)
			}
		})
		_ = w
	}
	wg.Wait()
	j, w := b.gorun("-H", "f1,f4", "echo", "ran")
	b.refused(j, w, 10*time.Second, lingering, refused)
	noName(b)
}

// noName is D1's unknown name, where name servers answer.
func noName(b *harness) {
	b.on("f1", "true")
	j, w := b.gorun("-H", "f1,bogus.invalid", "--start-timeout", "30", "echo", "ran")
	b.refused(j, w, 10*time.Second, lingering, `bogus\.invalid: `)
	n := strings.Count(strings.SplitN(j.Err.String(), "\n", 2)[0], "bogus.invalid:")
	check.That(b.t, n == 1, "the host is named %d times: %s", n, &j.Err)
}

// D3: 50 jobs add five hosts to known_hosts at once, and the file has each of them once.
func TestConcurrentAcceptNewKeepsKnownHosts(t *testing.T) {
	b := loopback(t, 5)
	want := must.Get(os.ReadFile(b.c.KnownHosts))(t)
	b.must(os.WriteFile(b.c.KnownHosts, nil, 0o600))
	j, w := b.gorun("-H", "f1,f2", "echo", "ran")
	b.refused(j, w, 20*time.Second, lingering, "SHA256:", "ssh-keyscan -p [0-9]+ 127", "--host-keys=accept-new")
	var jobs []*Job
	for i := range 50 {
		j, _ := b.gorun("--host-keys=accept-new", "--start-timeout", "150", "-H", fmt.Sprintf("f%d", i%5+1), "true")
		jobs = append(jobs, j)
	}
	for _, j := range jobs {
		<-j.Ended()
		must.That(t, j.code == 0, "exit code %d: %s", j.code, &j.Err)
	}
	got, _ := os.ReadFile(b.c.KnownHosts)
	for line := range strings.Lines(string(want)) {
		check.Equal(t, strings.Count(string(got), strings.TrimSpace(line)), 1, "times", line, "in", got)
	}
	check.That(t, strings.Count(string(got), "\n") == 5, "known_hosts:\n%s", got)
}

// aliases makes n names for the cluster's first host and returns them for -H.
func (b *harness) aliases(n int) string {
	b.t.Helper()
	config := must.Get(os.ReadFile(b.c.ConfigFile))(b.t)
	var names, aliases []string
	for i := range n {
		names = append(names, fmt.Sprintf("h%d", i))
		aliases = append(aliases, fmt.Sprintf("Host h%d\n  HostName %s\n  Port %d\n", i, b.c.Hosts[0].Addr,
			b.c.Hosts[0].Port))
	}
	must.OK(b.t, os.WriteFile(b.c.ConfigFile, append([]byte(strings.Join(aliases, "")), config...), 0o644))
	return strings.Join(names, ",")
}

// B11: gorun may not open as many files as its hosts need. It reports so before it connects to any.
func TestTooFewOpenFilesIsReportedFirst(t *testing.T) {
	b := loopback(t, 1)
	names := b.aliases(256)
	j, w := b.run("sh", "-c", `ulimit -n 64 && exec "$@"`, "sh", binary("gorun"), "-F", "{config}", "-H", names, "echo",
		"ran")
	<-j.Ended()
	b.judge(w, j, j.at, dueTo("256 hosts need about 344 open files, and gorun may have 64", 125))
	if log, err := os.ReadFile(b.c.Hosts[0].Log); err != nil || strings.Contains(string(log), "Connection from") {
		t.Errorf("a host was spoken to (%v): %s", err, log)
	}
}

// D13: 64 hosts are one sshd that accepts 2 to 4 connections at a time. Goal: all start within 30
// s.
func TestBusySSHDIsRetried(t *testing.T) {
	b := newHarness(t,
		lab.MustLoopback(t, lab.Spec{Options: []string{"MaxStartups 2:50:4", "MaxSessions 1", "MaxAuthTries 2"}}))
	const hosts = 64
	names := b.aliases(hosts)
	j, w := b.gorun("--prefix", "none", "--start-timeout", "150", "-H", names, "echo", "ran")
	w.Hosts = hosts
	<-j.Ended()
	b.judge(w, j, j.at, Expect{Codes: []int{0}, End: time.Second, Clean: 3 * time.Second})
	if n := strings.Count(j.Out.String(), "ran\n"); n != hosts || j.at.Sub(j.began) > 60*time.Second {
		t.Errorf("%d ranks ran, in %v: %s", n, j.at.Sub(j.began), &j.Err)
	}
}

// D14: the jump host's sshd is killed during a job. Goal: noticed in 0.5 s, nothing left in 12 s.
func TestLostJumpHostIsNamed(t *testing.T) {
	t.Parallel()
	b := namespaces(t, 2)
	config := filepath.Join(b.c.Dir, "jump_config")
	text := must.Get(os.ReadFile(b.c.ConfigFile))(t)
	b.must(os.WriteFile(config, append([]byte("Host f2\n  ProxyJump f1\n"), text...), 0o644))
	j, w := b.gorun("-F", config, "-H", "f2:2", "sh", "-c", "echo up; exec sleep 300")
	b.ups(j, 2)
	killed := time.Now()
	b.on("f1", "for p in $(ps -eo pid,comm | awk '$2 ~ /^sshd/ { print $1 }'); do kill -9 $p; done")
	b.judge(w, j, killed, Expect{
		Codes: []int{125},
		Cause: "host f2: lost the connection",
		End:   3 * time.Second,
		Clean: 12 * time.Second,
	})
}

// D19: the directory is missing on one of three hosts.
func TestMissingDirectoryNamesItsHost(t *testing.T) {
	t.Parallel()
	b := namespaces(t, 3)
	for _, host := range []string{"f1", "f2"} {
		b.must(os.Mkdir(filepath.Join(b.c.Host(host).Home, "work"), 0o755))
	}
	j, w := b.gorun("-H", "f1,f2,f3", "--wdir", filepath.Join(b.c.Dir, "home", "work"), "echo", "ran")
	b.refused(j, w, 10*time.Second, lingering, "^gorun: error: f3: .*home/work")
}

// D7, D20: login shells print much text or endless text, sleep long or read input before the agent
// starts.
func TestLoginShellsThatPrintSleepOrRead(t *testing.T) {
	t.Parallel()
	host := func(name, script string) lab.Spec {
		return lab.Spec{Name: name, Shell: "/bin/bash", Files: map[string]string{".bashrc": script + "\n"}}
	}
	b := newHarness(t, lab.MustNamespaces(t, lab.Specs(1)[0],
		host("text", "for i in $(seq 500); do echo welcome to the machine number $i; done"),
		host("binary", "head -c 50000 /dev/urandom"),
		host("mebibyte", "head -c 1048576 /dev/zero | tr '\\0' x"),
		host("endless", "yes"),
		host("asleep", "sleep 20"),
		host("reader", "cat")))
	j, w := b.gorun("--prefix", "none", "-H", "f1,text,binary", "echo", "ran")
	b.judge(w, j, time.Now(), Expect{Codes: []int{0}, End: 20 * time.Second, Clean: 20 * time.Second})
	n := strings.Count(j.Out.String(), "ran\n")
	check.That(t, n == 3 && len(j.Out.String()) == 12, "%q", &j.Out)
	j, w = b.gorun("-H", "f1,mebibyte,endless,asleep,reader", "echo", "ran")
	const asleep = 15 * time.Second // what a start file runs before the agent is nobody's to end
	b.refused(j, w, 15*time.Second, asleep,
		`mebibyte: .*the login shell printed more than 64 KiB`, `endless: .*the login shell printed more than 64 KiB`,
		`hint: let its login shell's start files`,
		`asleep, reader: .*no answer within 10s`, `hint: its login shell's start files may be slow`,
		`: still starting its agent after 5 s`)
	// D20: a longer start timeout allows for it.
	j, w = b.gorun("--prefix", "none", "--start-timeout", "150", "-H", "f1,asleep", "echo", "ran")
	b.judge(w, j, time.Now(), Expect{Codes: []int{0}, End: 60 * time.Second, Clean: 60 * time.Second})
}

// D16: many jobs put the agent into one new home at once, and every upload is complete.
func TestConcurrentUploadsAreComplete(t *testing.T) {
	t.Parallel()
	b := newHarness(t, lab.MustNamespaces(t, lab.Spec{Home: "shared"}, lab.Spec{Home: "shared"}))
	gorun := b.install()
	var jobs []*Job
	const n = 10 // each packs and unpacks 10 MB
	for i := range n {
		j, _ := b.run(gorun, "-F", "{config}", "-H", fmt.Sprintf("f%d", i%2+1), "--wdir", "/", "true")
		jobs = append(jobs, j)
	}
	for _, j := range jobs {
		<-j.Ended()
		check.That(t, j.code == 0, "exit code %d: %s", j.code, &j.Err)
	}
	sent := must.Get(os.ReadFile(binary("gorun")))(t)
	found, _ := filepath.Glob(filepath.Join(b.c.Host("f1").Home, ".cache/gorun/*/gorun"))
	for _, file := range found {
		if got, err := os.ReadFile(file); err != nil || sha256.Sum256(got) != sha256.Sum256(sent) {
			t.Errorf("%s is not what was sent (%v)", file, err)
		}
	}
	check.That(t, len(found) == 1, "staged %q", found)
}

// install puts gorun where the hosts do not see it, so that it must be staged.
func (b *harness) install() string {
	b.t.Helper()
	script := `mkdir -p ~/bin && cp "$0" ~/bin/gorun && cd && pwd`
	home := must.Get(b.c.Command(b.t.Context(), "sh", "-c", script, binary("gorun")).Output())(b.t)
	return filepath.Join(strings.TrimSpace(string(home)), "bin/gorun")
}
