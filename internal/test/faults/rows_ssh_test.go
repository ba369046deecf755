package faults

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// D5: known_hosts has one of a host's keys, and the host prefers another. All pairs of kinds, by
// name and by address, in the clear and hashed, on port 22 and on another.
func TestOneKnownHostKeyTypeSuffices(t *testing.T) {
	t.Parallel()
	lab.Need(t, "ssh-keygen")
	kinds := []string{"ed25519", "ecdsa", "rsa"}
	algorithms := map[string]string{"ed25519": "ssh-ed25519", "ecdsa": "ecdsa-sha2-nistp256",
		"rsa": "rsa-sha2-512,rsa-sha2-256"}
	var specs []lab.Spec
	for i := range 9 { // host i prefers kind i/3, and kind i%3 is known
		order := []string{algorithms[kinds[i/3]], algorithms[kinds[(i/3+1)%3]], algorithms[kinds[(i/3+2)%3]]}
		specs = append(specs, lab.Spec{Keys: kinds,
			Options: []string{"Port 22", "Port 2222", "HostKeyAlgorithms " + strings.Join(order, ",")}})
	}
	b := newHarness(t, lab.MustNamespaces(t, specs...))
	write := func(line func(i int, h *lab.Host) string) {
		t.Helper()
		var text strings.Builder
		for i := range b.c.Hosts {
			fmt.Fprintln(&text, line(i, &b.c.Hosts[i]))
		}
		b.must(os.WriteFile(b.c.KnownHosts, []byte(text.String()), 0o644))
	}
	for _, port := range []string{"22", "2222"} {
		for _, byName := range []bool{true, false} {
			called := func(h *lab.Host) string {
				if byName {
					return h.Name
				}
				return h.Addr
			}
			var names []string
			for i := range b.c.Hosts {
				names = append(names, called(&b.c.Hosts[i])+":1")
			}
			config := b.onPort(port)
			known := func(h *lab.Host) string {
				if port == "22" {
					return called(h)
				}
				return "[" + called(h) + "]:" + port
			}
			job := func() (*Job, *Watch) {
				return b.gorun("-F", config, "-H", strings.Join(names, ","), "--prefix", "none", "echo", "ran")
			}
			for _, hashed := range []bool{false, true} {
				write(func(i int, h *lab.Host) string { return known(h) + " " + h.Keys[i%3] })
				if hashed {
					must.Run(t, exec.Command("ssh-keygen", "-H", "-f", b.c.KnownHosts))
				}
				j, w := job()
				at := time.Now()
				b.judge(w, j, at, Expect{Codes: []int{0}, End: 30 * time.Second, Clean: 30 * time.Second})
				if n := strings.Count(j.Out.String(), "ran\n"); n != 9 {
					t.Errorf("port %s, by name %v, hashed %v: %d ranks ran: %s", port, byName, hashed, n, &j.Err)
				}
			}
			// With the key of another host the alarm is real.
			write(func(i int, h *lab.Host) string { return known(h) + " " + b.c.Hosts[(i+1)%9].Keys[i%3] })
			j, w := job()
			b.refused(j, w, 30*time.Second, lingering, "changed")
			for _, h := range b.c.Hosts {
				check.That(t, strings.Contains(j.Err.String(), called(&h)), "%s is not named: %s", called(&h), &j.Err)
			}
		}
	}
}

// onPort returns the cluster's ssh configuration for another port.
func (b *harness) onPort(port string) (config string) {
	b.t.Helper()
	text, err := os.ReadFile(b.c.ConfigFile)
	if err == nil {
		config = filepath.Join(b.c.Dir, "config-"+port)
		err = os.WriteFile(config, append([]byte("Host *\n  Port "+port+"\n"), text...), 0o644)
	}
	must.OK(b.t, err)
	return config
}

// slowPoints are the points of a connection after which sshd stalls.
func slowPoints() []string {
	return []string{"accept", "banner", "kexinit", "newkeys", "service", "auth", "session"}
}

// slowHost relays connections to a host's sshd and stops all sshd processes when the first
// connection reaches a point.
type slowHost struct {
	host  *lab.Host
	point string
	lasts time.Duration // 0: until wake
	l     net.Listener
	wg    sync.WaitGroup
	once  sync.Once

	mu      sync.Mutex
	stopped []int
}

func newSlowHost(t *testing.T, host *lab.Host, point string, lasts time.Duration) *slowHost {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &slowHost{
		host:  host,
		point: point,
		lasts: lasts,
		l:     l,
	}
	s.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.carry(client) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.wake()
		s.wg.Wait()
	})
	return s
}

func (s *slowHost) carry(client net.Conn) {
	defer client.Close()
	if s.point == "accept" {
		s.stop()
	}
	server, err := net.Dial("tcp", net.JoinHostPort(s.host.Addr, fmt.Sprint(s.host.Port)))
	if err != nil {
		return
	}
	defer server.Close()
	s.wg.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.(*net.TCPConn).CloseWrite()
	})
	encrypted := 0 // writes of the server after its keys
	for page := make([]byte, 32<<10); ; {
		n, err := server.Read(page)
		if err != nil {
			return
		}
		if s.reached(page[:n], &encrypted) {
			s.stop()
		}
		if _, err := client.Write(page[:n]); err != nil {
			return
		}
	}
}

// reached reports whether data from the server comes after the point.
func (s *slowHost) reached(data []byte, encrypted *int) bool {
	log, _ := os.ReadFile(s.host.Log)
	newKeys := bytes.Contains(data, []byte{0, 0, 0, 12, 10, 21})
	if newKeys || *encrypted > 0 {
		*encrypted++
	}
	switch s.point {
	case "banner":
		return bytes.HasPrefix(data, []byte("SSH-2.0"))
	case "kexinit":
		return bytes.Contains(data, []byte("hmac-sha2")) // in the lists of what the server can do
	case "newkeys":
		return newKeys
	case "service":
		return *encrypted == 2
	case "auth":
		return bytes.Contains(log, []byte("Accepted publickey"))
	case "session":
		return bytes.Contains(log, []byte("Starting session"))
	}
	return false
}

// stop stops sshd once, for the time that the host is slow.
func (s *slowHost) stop() {
	s.once.Do(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for next := []int{s.host.PID}; len(next) > 0; next = next[1:] {
			s.stopped = append(s.stopped, next[0])
			next = append(next, lab.Children(next[0])...)
		}
		_ = send(s.stopped, syscall.SIGSTOP)
		if s.lasts > 0 {
			s.wg.Go(func() {
				time.Sleep(s.lasts)
				s.wake()
			})
		}
	})
}

func (s *slowHost) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = send(s.stopped, syscall.SIGCONT)
	s.stopped = nil
}

// slowCluster has a host for each point, and f8, which is not slow.
func slowCluster(t *testing.T, lasts time.Duration) (b *harness, names []string, wake func()) {
	t.Helper()
	b = newHarness(t, lab.MustLoopback(t, lab.Specs(len(slowPoints())+1)...))
	var config, known strings.Builder
	var all []*slowHost
	for i, point := range slowPoints() {
		h := &b.c.Hosts[i]
		s := newSlowHost(t, h, point, lasts)
		port := s.l.Addr().(*net.TCPAddr).Port
		fmt.Fprintf(&config, "Host %s\n  HostName 127.0.0.1\n  Port %d\n", point, port)
		fmt.Fprintf(&known, "[127.0.0.1]:%d %s\n", port, h.Keys[0])
		names = append(names, point)
		all = append(all, s)
	}
	for file, more := range map[string]string{b.c.ConfigFile: config.String(), b.c.KnownHosts: known.String()} {
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, append([]byte(more), text...), 0o644)
		}
		must.OK(t, err)
	}
	return b, names, func() {
		for _, s := range all {
			s.wake()
		}
	}
}

// D12: sshd stalls at some point of a connection. If it continues, the job runs, meanwhile the user
// sees which hosts are slow, and the others do not wait. Otherwise the host is named in time.
func TestStalledSSHDIsNamed(t *testing.T) {
	t.Parallel()
	const fast = "f8"
	ready := func(t *testing.T, b *harness, j *Job) { // goal: 1 s
		t.Helper()
		b.within(4*time.Second, fast+" to be ready", func() bool {
			log, _ := os.ReadFile(b.c.Host(fast).Log)
			return bytes.Contains(log, []byte("Starting session"))
		})
	}
	slow := regexp.MustCompile(`(?m)^gorun: (.*): still (connecting|starting its agent|getting ready) after 5 s$`)
	named := func(j *Job) (hosts []string) {
		for _, m := range slow.FindAllStringSubmatch(j.Err.String(), -1) {
			hosts = append(hosts, strings.Split(m[1], ", ")...)
		}
		slices.Sort(hosts)
		return slices.Compact(hosts)
	}
	t.Run("and goes on", func(t *testing.T) {
		t.Parallel()
		b, names, _ := slowCluster(t, 8*time.Second)
		j, w := b.gorun("-H", strings.Join(append(names, fast), ","), "--prefix", "none", "echo", "ran")
		w.Hosts = len(names) + 1
		at := time.Now()
		ready(t, b, j)
		b.judge(w, j, at, Expect{Codes: []int{0}, End: 30 * time.Second, Clean: 30 * time.Second})
		check.Equal(t, strings.Count(j.Out.String(), "ran\n"), len(names)+1, "ranks ran")
		slices.Sort(names)
		got := named(j)
		check.That(t, slices.Equal(got, names), "named %q, want %q: %s", got, names, &j.Err)
	})
	t.Run("for good", func(t *testing.T) {
		t.Parallel()
		b, names, wake := slowCluster(t, 0)
		j, w := b.gorun("--start-timeout", "30", "-H", strings.Join(append(names, fast), ","), "--prefix", "none",
			"echo", "ran")
		w.Hosts = len(names) + 1
		ready(t, b, j)
		<-j.Ended()
		wake() // a stopped process cannot end
		b.judge(w, j, j.at, Expect{Codes: []int{125}, End: 2 * time.Second, Clean: lingering})
		if took := j.at.Sub(j.began); took > 34*time.Second { // goal: the 30 s
			t.Errorf("took %v", took)
		}
		for _, name := range names {
			says := "no answer" // of this step, before the start as a whole takes too long
			if name == "session" {
				says = "" // its agent may have answered
			}
			if !regexp.MustCompile(`(?m)^gorun: error: (.*, )?` + name + `\b.*` + says).MatchString(j.Err.String()) {
				t.Errorf("%s is not named", name)
			}
		}
		check.That(t, !strings.Contains(j.Err.String(), "error: "+fast) && j.Out.String() == "", "%s%s", &j.Out, &j.Err)
		t.Logf("%v: %s", j.at.Sub(j.began), &j.Err)
	})
}
