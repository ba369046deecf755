package job

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/frames"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

// A client that has gone ends its command, also where that, or its host, takes no input.
func TestClientThatGoesEndsItsCommand(t *testing.T) {
	told := make(chan struct{})
	machine := &fake.Machine{Disk: fake.NewDisk(map[string]string{"/gorun": "build one"})}
	machine.Serve = func(a *fake.Agent) error {
		if err := a.Ready(); err != nil {
			return err
		}
		for {
			f, err := a.Frames.Next()
			if err != nil {
				return nil
			}
			if what, _, err := f.Tell(); f.Type == wire.TypeTell && err == nil && what == wire.TellEnd {
				close(told)
				return a.Finish(wire.Exit{})
			}
		}
	}
	p := must.Get(plan.New([]hostfile.Host{{Name: "f1", Slots: 1}}, launcher.Request{}))(t)
	sessions := &launcher.Sessions{}
	started := make(chan struct{})
	stops := make(chan launcher.Stop, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = launcher.Run(t.Context(), p, launcher.Options{
			Programs: []launcher.Program{{Argv: []string{"x"}, Wdir: "/", Ranks: 1}},
			Reach: launcher.Reach{
				Dial: func(context.Context, hostfile.Host) (launcher.Host, error) { return machine, nil },
				Exe: launcher.Executable{Path: "/gorun", Build: "one",
					Hash: func() (string, error) { return strings.Repeat("0", 64), nil }},
			},
			Sessions: sessions,
			Stops:    stops,
			Stdout:   io.Discard,
			Stderr:   io.Discard,
			Follow: func(e launcher.Event) {
				if _, is := e.(launcher.Started); is {
					close(started)
				}
			},
		})
	}()
	<-started
	place := control.Place{State: filepath.Join(t.TempDir(), "gorun"), Host: "here"}
	server := control.New(control.Options{Place: place,
		Actions: control.Actions{Stream: hostRequests{sessions: sessions}.serve}})
	must.OK(t, server.Listen())
	defer server.Close()
	job := must.Get(place.Find(t.Context(), server.ID()))(t)
	must.Until(t, "the session of the rank", func() bool { return sessions.Of(0) != nil })
	conn, _, err := job.Client.Exec(t.Context(), control.Exec{Argv: wire.Texts{"x"}})
	must.OK(t, err)
	for must.OK(t, conn.SetWriteDeadline(time.Now().Add(time.Second))); err == nil; {
		err = frames.Write(conn, frames.In, make([]byte, 16<<10))
	}
	conn.Close()
	select {
	case <-told:
	case <-time.After(5 * time.Second):
		t.Error("the command goes on, whose client has gone")
		stops <- launcher.Stop{Reason: launcher.Interrupted, Now: true}
	}
	<-ended
}
