package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/exitcode"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// TestEventLines compares one line of each kind.
func TestEventLines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events")
	log := must.Get(OpenEvents(name, &UI{W: failingWriter{t}}))(t)
	log.now = func() time.Time { return time.Date(2026, 11, 21, 20, 51, 31, 5e6, time.UTC) }
	log.Plan(planOf(t, "f1:2,f2:2"), []launcher.Program{{Argv: []string{"./train", "--epochs", "3"}, Ranks: 4}})
	r := failedJob(launcher.Exit{
		Signal:      9,
		CPU:         2400 * time.Millisecond,
		MaxRSS:      2_140_000_000,
		OutOfMemory: launcher.MemoryOfGroup,
		MemoryLimit: 2 << 30,
	})
	r.Cause.Stderr = []string{"out of \"memory\""}
	r.Cause.Log = "out/rank.1/stderr"
	for _, e := range []launcher.Event{launcher.Connected{Host: "f1"}, launcher.Ready{Host: "f1"},
		launcher.Started{At: r.Started},
		launcher.Exited{Host: "f1", Exit: r.Exits[0]}, launcher.Exited{Host: "f1", Exit: r.Exits[1]},
		launcher.Exited{Host: "f2", Exit: r.Exits[3]},
		launcher.HostLost{Host: "f2", Err: errors.New("no word from the agent"), At: 4 * time.Second}} {
		log.Event(e)
	}
	log.End(Outcome{Result: r})
	log.End(Outcome{Result: launcher.Result{
		Stopped: launcher.TimedOut,
		Started: r.Started,
		Ended:   r.Started + time.Minute,
	}})
	log.End(Outcome{Err: &launcher.RefusedError{Code: 127, What: "no such program", Remedy: "give its path"}})
	log.Close()
	text := must.Get(os.ReadFile(name))(t)
	for line := range bytes.Lines(text) {
		check.That(t, json.Valid(line), "not JSON: %s", line)
	}
	golden.File(t, filepath.Join("testdata", "events.jsonl"), string(text))
}

// failingWriter fails each write.
type failingWriter struct{ t *testing.T }

func (w failingWriter) Write(p []byte) (int, error) {
	w.t.Errorf("gorun said %q", p)
	return len(p), nil
}

func TestEventsToADescriptor(t *testing.T) {
	r, w := must.GetTwo(os.Pipe())(t)
	defer r.Close()
	fd := must.Get(syscall.Dup(int(w.Fd())))(t)
	w.Close()
	log := must.Get(OpenEvents("fd:"+strconv.Itoa(fd), &UI{W: failingWriter{t}}))(t)
	log.End(Outcome{Err: errors.New("no")})
	log.Close()
	var e jobEvent
	err := json.NewDecoder(r).Decode(&e)
	check.That(t, err == nil && e.Event == "done" && *e.Code == 125 && e.Error == "no", "%+v, %v", e, err)
	for _, name := range []string{"fd:", "fd:x", "fd:0", "fd:-1", "fd:987654"} {
		_, err := OpenEvents(name, nil)
		check.That(t, exitcode.IsUsage(err) && usage.Hint(err) != "", "%s: %v", name, err)
	}
	_, err = OpenEvents(filepath.Join(t.TempDir(), "no", "where"), nil)
	check.That(t, exitcode.IsUsage(err) && usage.Hint(err) != "", "a folder that there is not: %v", err)
}

func TestUnwritableEventsWarnOnce(t *testing.T) {
	var said bytes.Buffer
	log := must.Get(OpenEvents("/dev/full", &UI{W: &said}))(t)
	for range 3 {
		log.Event(launcher.Connected{Host: "f1"})
	}
	log.Close()
	check.Equal(t, strings.Count(said.String(), "warning: "), 1, "warnings:", &said)
}
