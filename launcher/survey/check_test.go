package survey

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/launcher/session"
)

func executable() session.Executable {
	return session.Executable{Path: "/gorun", Build: "one", Hash: func() (string, error) {
		return strings.Repeat("0", 64), nil
	}}
}

// reachOf is how m is reached; if it serves nothing, it is down.
func reachOf(t *testing.T, m *fake.Machine) Reach {
	exe := executable()
	m.Disk = fake.NewDisk(map[string]string{exe.Path: "build " + exe.Build})
	dial := func(context.Context, hostfile.Host) (session.Host, error) {
		if m.Serve == nil {
			return nil, errors.New("connection refused")
		}
		return m, nil
	}
	return Reach{
		Dial:         dial,
		Exe:          exe,
		StartTimeout: 20 * time.Second,
		Trace:        t.Logf,
	}
}

// answering returns an agent that answers a request by a message.
func answering(request, answer wire.Type, message string) func(a *fake.Agent) error {
	return func(a *fake.Agent) error {
		if _, err := a.Expect(request); err != nil {
			return err
		}
		_ = a.Out.Send(answer, 0, []byte(message))
		return a.UntilEOF()
	}
}

// silent is an agent that answers nothing.
func silent(a *fake.Agent) error { return a.UntilEOF() }

func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		said := map[string]bool{}
		say := func(line string) {
			mu.Lock()
			defer mu.Unlock()
			said[line] = true
		}
		machines := map[string]*fake.Machine{
			"good": {Disk: fake.NewDisk(map[string]string{"/gorun": "build one"})},
			"bare": {Disk: fake.NewDisk(nil)},
			"full": {Disk: fake.NewDisk(nil), PutErr: errors.New("no space left on device")},
		}
		dial := func(ctx context.Context, h hostfile.Host) (session.Host, error) {
			switch h.Name {
			case "down":
				return nil, errors.New("connection refused")
			case "mute":
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			return machines[h.Name], nil
		}
		var hosts []hostfile.Host
		for _, name := range []string{"good", "down", "mute", "bare", "full"} {
			hosts = append(hosts, hostfile.Host{Name: name})
		}
		reach := Reach{
			Dial:         dial,
			Exe:          executable(),
			StartTimeout: 20 * time.Second,
			Trace:        func(format string, args ...any) { say(fmt.Sprintf(format, args...)) },
			Note:         say,
		}
		got := ""
		for _, c := range Check(t.Context(), hosts, reach) {
			got += fmt.Sprintf("%s %s %v %v\n", c.Host.Name, c.Machine, c.Took.Round(time.Second), c.Err)
		}
		want := "good machine 0s <nil>\ndown  0s connection refused\nmute  20s no answer within 20s " +
			"(--start-timeout)\nbare machine 1s <nil>\n" +
			"full  0s upload gorun to ~/.cache/gorun/7692c3ad3540bb80/gorun: no space left on device\n"
		check.Equal(t, got, want)
		for _, line := range []string{"mute: connecting", "mute: still connecting after 5 s",
			"good: agent 1 on machine"} {
			check.That(t, said[line], "the user is not told %q", line)
		}
		for name, m := range machines {
			check.That(t, m.Closed, "the connection to %s was not closed", name)
		}
		check.That(t, machines["good"].Left, "an agent's stdin did not end")
	})
}
