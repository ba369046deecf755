package ui

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// screen is a terminal that is safe to read during writes.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestFooterShowsTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out screen
		seen := 0
		news := func() string {
			text := out.String()[seen:]
			seen += len(text)
			return text
		}
		console := &UI{W: &out}
		f := NewFooter(console, 2)
		shows := func(want string) {
			t.Helper()
			time.Sleep(liveWait)
			synctest.Wait()
			check.Equal(t, news(), want)
		}
		time.Sleep(liveWait / 2)
		synctest.Wait()
		check.That(t, out.String() == "", "shown at once: %q", &out)
		shows("gorun: connecting 0/2")
		shows("") // nothing new
		f.Event(launcher.Connected{Host: "f1"})
		shows("\r\x1b[Kgorun: connecting 1/2")
		console.Warningf("f2 is slow")
		shows("\r\x1b[Kgorun: warning: f2 is slow\ngorun: connecting 1/2")
		f.Event(launcher.Connected{Host: "f2"})
		f.Event(launcher.Ready{Host: "f2"})
		f.Expect(4000)
		f.Add(1000)
		time.Sleep(liveTick)
		synctest.Wait()
		check.Equal(t, news(), "\r\x1b[Kgorun: staging 1/2: 1.0 kB of 4.0 kB, 25 %, 526 bytes/s, 6s left")
		f.Add(3000)
		f.Event(launcher.Ready{Host: "f1"})
		shows("\r\x1b[Kgorun: starting")
		f.Event(launcher.Started{})
		if got := news(); got != "\r\x1b[K" { // after Event has returned
			t.Errorf("after the start %q", got)
		}
		f.Close()
		console.Notef("on")
		shows("gorun: on\n")
	})
}

func TestFooterOfAFastStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		f := NewFooter(&UI{W: &out}, 1)
		f.Event(launcher.Connected{Host: "f1"})
		f.Event(launcher.Started{})
		f.Close()
		check.That(t, out.String() == "", "%q", &out)
	})
}

// No text of another machine begins a line as gorun does.
func TestMessagesAreOneLine(t *testing.T) {
	var out strings.Builder
	console := &UI{W: &out}
	for _, say := range []func(string, ...any){console.Errorf, console.Hintf, console.Warningf, console.Notef} {
		say("f1: %s", "one\ngorun: error: two\r\ngorun: error: three")
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	check.That(t, len(lines) == 12 && strings.Count("\n"+out.String(), "\ngorun: ") == 4, "%q", lines)
}

// A hint of a host's agent is shown as the host's.
func TestHintsOfHostsNameThem(t *testing.T) {
	var out strings.Builder
	console := &UI{W: &out}
	refused := func(hint string) error { return &launcher.RefusedError{What: "no", Remedy: hint} }
	console.ReportHosts([]launcher.HostError{
		{Host: "f1", Err: refused("type this")},
		{Host: "localhost", Err: refused("type that")},
		{Host: "f2", Err: refused("type this")},
		{Host: "f3", Err: usage.Errorf("try again", "no answer")},
	})
	_, hints, _ := strings.Cut(out.String(), "gorun: hint: ")
	check.That(t, hints == "f1, f2: type this\ngorun: hint: type that\ngorun: hint: try again\n", "%q", hints)
	for host, want := range map[string]string{"f1": "f1: type this", "localhost": "type this"} {
		f := launcher.Failure{Host: host, Exit: launcher.Exit{Failed: "no", Remedy: "type this"}}
		check.Equal(t, failureHint(f), want, host)
	}
}
