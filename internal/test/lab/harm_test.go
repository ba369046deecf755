package lab_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// session is an open ssh session from f0 to a host. Its input goes to a file on the host.
type session struct {
	stdin io.WriteCloser
	file  string
	ended chan error
}

func openSession(t *testing.T, c *lab.Cluster, host string) *session {
	t.Helper()
	cmd := c.Command(t.Context(), "ssh", "-F", c.ConfigFile, host, "cat >>got")
	s := &session{file: filepath.Join(c.Host(host).Home, "got"), ended: make(chan error, 1)}
	var err error
	if s.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	must.OK(t, cmd.Start())
	go func() { s.ended <- cmd.Wait() }()
	must.That(t, s.hears("hello", 10*time.Second), "the session does not work at first")
	return s
}

// hears sends a word and reports whether it arrives in time.
func (s *session) hears(word string, limit time.Duration) bool {
	fmt.Fprintln(s.stdin, word)
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		if text, _ := os.ReadFile(s.file); strings.Contains(string(text), word+"\n") {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

func TestHarmToANetwork(t *testing.T) {
	lab.Need(t, "nft", "ss", "tc", "ssh")
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	s := openSession(t, c, "f1")
	must(c.Drop(ctx, "f1", "f0"))
	check.That(t, s.hears("there", 10*time.Second), "what f0 sends to f1 is lost, where only the other way is cut")
	must(c.Undrop(ctx, "f1", "f0"))
	must(c.Drop(ctx, "f0", "f1"))
	check.That(t, !s.hears("lost", 400*time.Millisecond), "what f0 sends to f1 arrives, though that way is cut")
	must(c.Undrop(ctx, "f0", "f1"))
	check.That(t, s.hears("again", 20*time.Second), "what f0 sends to f1 is lost, though nothing is cut any more")
	must(c.Cut(ctx, "f1"))
	check.That(t, !s.hears("cut off", 400*time.Millisecond), "f1 can be reached while it is cut off")
	ssh(t, c, "f2", "true")
	must(c.Restore(ctx, "f1"))
	check.That(t, s.hears("restored", 20*time.Second), "f1 cannot be reached, though it is no longer cut off")
	must(c.Part(ctx, "f1", "f2"))
	ping := func() error { // by sshd's greeting
		return c.On(ctx, "f2", "timeout", "1", "bash", "-c", "read -r -n 3 <>/dev/tcp/"+c.Host("f1").Addr+"/22").Run()
	}
	check.That(t, ping() != nil && s.hears("both", time.Second),
		"f1 and f2 reach each other, or f0 no longer reaches f1")
	must(c.Unpart(ctx, "f1", "f2"))
	if err := ping(); err != nil {
		t.Error("f1 and f2 do not reach each other again:", err)
	}
	must(c.Garble(ctx, "f1", 100))
	check.That(t, !s.hears("garbled", 300*time.Millisecond), "what is damaged on its way to f1 is taken")
	must(c.Ungarble(ctx, "f1"))
	check.That(t, s.hears("whole", 20*time.Second), "what is damaged no more is not taken")
	must(c.Narrow(ctx, "f1", 64))
	check.That(t, s.hears("narrow", 10*time.Second) && !s.hears(strings.Repeat("x", 40_000), 500*time.Millisecond),
		"40 kB should take longer than 0.5 s at 64 kbit/s, and few bytes should pass")
	must(c.Widen(ctx, "f1"))
	must(c.Reset(ctx, "f0", "f1"))
	select {
	case <-s.ended:
	case <-time.After(10 * time.Second):
		t.Error("the session goes on though its connection was reset")
	}
}

func TestSmallDisk(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(1)...)
	dir := filepath.Join(c.Dir, "small")
	must.OK(t, os.Mkdir(dir, 0o755))
	must.OK(t, c.Disk(t.Context(), "f1", dir, 16))
	fill := "head -c %d /dev/zero >" + dir + "/file"
	check.Equal(t, ssh(t, c, "f1", fmt.Sprintf(fill, 16<<10)), "")
	out := ssh(t, c, "f1", fmt.Sprintf(fill, 16<<10+1)+" 2>&1 || echo full")
	check.That(t, strings.HasSuffix(out, "full"), "17 KiB fit: %q", out)
}
