package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/launcher"
)

func TestFooterShowsTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out output
		seen := 0
		news := func() string {
			text := out.String()[seen:]
			seen += len(text)
			return text
		}
		say := &ui{w: &out}
		f := newFooter(say, 2)
		shows := func(want string) {
			t.Helper()
			time.Sleep(footerWait)
			synctest.Wait()
			if got := news(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		time.Sleep(footerWait / 2)
		synctest.Wait()
		if out.Len() > 0 {
			t.Errorf("shown at once: %q", &out)
		}
		shows("gorun: connecting 0/2")
		shows("") // nothing new
		f.follow(launcher.Connected{Host: "f1"})
		shows("\r\x1b[Kgorun: connecting 1/2")
		say.warningf("f2 is slow")
		shows("\r\x1b[Kgorun: warning: f2 is slow\ngorun: connecting 1/2")
		f.follow(launcher.Connected{Host: "f2"})
		f.follow(launcher.Ready{Host: "f2"})
		shows("\r\x1b[Kgorun: staging 1/2")
		f.follow(launcher.Ready{Host: "f1"})
		shows("\r\x1b[Kgorun: starting")
		f.follow(launcher.Started{})
		if got := news(); got != "\r\x1b[K" { // when follow has returned
			t.Errorf("after the start %q", got)
		}
		f.close()
		say.notef("on")
		shows("gorun: on\n")
	})
}

func TestFooterOfAFastStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		f := newFooter(&ui{w: &out}, 1)
		f.follow(launcher.Connected{Host: "f1"})
		f.follow(launcher.Started{})
		f.close()
		if out.Len() > 0 {
			t.Errorf("%q", &out)
		}
	})
	var none *footer // no terminal
	none.follow(launcher.Started{})
	none.close()
}
