package launcher

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/files/fetch"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

// giving is a host on which ranks end well, and then answers for its files.
func giving(answer func(a *fake.Agent) error) *fake.Machine {
	ended := false
	return &fake.Machine{Serve: func(a *fake.Agent) error {
		if ended {
			return answer(a)
		}
		ended = true
		return errors.Join(a.Ready(), a.Finish(wire.Exit{}))
	}}
}

// giveFolder is an honest answer: an empty folder.
func giveFolder(a *fake.Agent) error {
	return errors.Join(announce(a, workdir.Entry{Path: "d", Kind: workdir.Dir, Mode: 0o700}), a.UntilEOF())
}

// announce answers with what will come.
func announce(a *fake.Agent, entries ...workdir.Entry) error {
	if _, err := a.Expect(wire.TypeFetch); err != nil {
		return err
	}
	var list bytes.Buffer
	zip := gzip.NewWriter(&list)
	return errors.Join(json.NewEncoder(zip).Encode(fetch.List{Entries: entries}), zip.Close(),
		a.Out.Send(wire.TypeFolder, 0, list.Bytes()))
}

// Files that a host has announced and not sent do not count as files that came back.
func TestAnnouncedFilesDoNotCount(t *testing.T) {
	top := t.TempDir()
	must.OK(t, os.Chmod(top, 0o755))
	promising := giving(func(a *fake.Agent) error {
		return announce(a, workdir.Entry{
			Path: "f",
			Kind: workdir.File,
			Size: 1000,
			Mode: 0o600,
		})
	})
	r, err := runOn(t, []*fake.Machine{giving(giveFolder), promising}, func(o *Options) {
		o.Back = &Back{Patterns: []string{"*"}, Dir: top}
	})
	must.OK(t, err)
	check.That(t, len(r.Back.Failed) == 1 && r.Back.Failed[0].Host == "h1", "failed: %v", r.Back.Failed)
	check.That(t, r.Back.Hosts == 1 && r.Back.Files == 0 && r.Back.Bytes == 0, "%d files, %d bytes came from %d",
		r.Back.Files, r.Back.Bytes, r.Back.Hosts)
}

// Whatever a hostile host says when its files are to come back: the job ends, those of the other
// hosts come, and nothing is written but in the hosts' folders.
func FuzzFilesThatComeBack(f *testing.F) {
	fake.AddScripts(f, 60)
	f.Fuzz(func(t *testing.T, input []byte) {
		s := &fake.Script{Rest: input[:min(len(input), 1<<10)]}
		hosts := 1 + s.Next(3)
		hostile := s.Next(hosts)
		stop := fake.One(s, NotStopped, NotStopped, Interrupted)
		after := time.Second + s.Wait()
		var machines []*fake.Machine
		for range hosts {
			machines = append(machines, giving(giveFolder))
		}
		play := *s
		machines[hostile] = giving(func(a *fake.Agent) error {
			return play.PlayWith(a, func() error { return play.Errand(a) })
		})
		over := time.AfterFunc(time.Minute, func() { panic("Run does not return") }) // in real time
		defer over.Stop()
		top := t.TempDir()
		must.OK(t, os.Chmod(top, 0o755))
		dir := filepath.Join(top, "back")
		r, err := runOn(t, machines, func(o *Options) {
			o.Back = &Back{Patterns: []string{"*"}, Dir: dir}
			if stop != NotStopped {
				stops := make(chan Stop, 1)
				o.Stops = stops
				time.AfterFunc(after, func() { stops <- Stop{Reason: stop} })
			}
		})
		must.OK(t, err)
		checkOutcome(t, r.Result, fmt.Sprint("h", hostile))
		check.That(t, r.took < longest, "it took %v", r.took)
		texts := r.Back.Notes
		for _, failed := range r.Back.Failed {
			texts = append(texts, failed.Error())
			own := failed.Host == fmt.Sprint("h", hostile) || failed.Host == fetch.ThisMachine
			check.That(t, own || stop != NotStopped, "failed: %v", failed)
		}
		for _, text := range texts {
			check.That(t, prose.Plain(text) == text && !strings.Contains(text, "\n") && len(text) < 10<<10,
				"not fit for a terminal: %d bytes, %.300q", len(text), text)
		}
		for _, entry := range must.Get(os.ReadDir(top))(t) {
			check.Equal(t, entry.Name(), "back")
		}
		for i, name := range fetch.HostFolders([]string{"h0", "h1", "h2"}[:hosts]) {
			if i != hostile && stop == NotStopped {
				must.Get(os.Stat(filepath.Join(dir, name, "d")))(t)
			}
		}
	})
}
