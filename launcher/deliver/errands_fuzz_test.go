package deliver

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/files/fetch"
	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/route"
	"github.com/gorun/gorun/launcher/session"
	"github.com/gorun/gorun/launcher/survey"
)

// honest is an agent that answers each request, and has one file.
func honest(a *fake.Agent, file *relay.Source) error {
	for {
		f, err := a.Frames.Next()
		if err != nil {
			return nil
		}
		switch f.Type {
		case wire.TypeListGPUs:
			err = a.Out.SendMessage(wire.TypeGPUs, map[string]any{"devices": []any{map[string]any{"index": 0}}})
		case wire.TypeCount:
			err = a.Out.SendMessage(wire.TypeUnits, wire.Units{wire.BindSocket: 2})
		case wire.TypeFetch:
			err = give(a, file)
		case wire.TypeOffer:
			err = take(a, f)
		}
		if err != nil {
			return err
		}
	}
}

// give sends the file.
func give(a *fake.Agent, file *relay.Source) error {
	var list bytes.Buffer
	zip := gzip.NewWriter(&list)
	entry := workdir.Entry{
		Path: "f",
		Kind: workdir.File,
		Size: file.Size(),
		Mode: 0o600,
	}
	err := errors.Join(json.NewEncoder(zip).Encode(fetch.List{Entries: []workdir.Entry{entry}}), zip.Close(),
		a.Out.Send(wire.TypeFolder, 0, list.Bytes()),
		a.Out.SendMessage(wire.TypeOffer, file.Offer(wire.Place{Name: []byte("f")})))
	if err == nil {
		_, err = a.Expect(wire.TypeOffered)
	}
	text, failed := io.ReadAll(file.From(0))
	return errors.Join(err, failed, a.Out.Send(wire.TypePiece, 0, text))
}

// take takes a file from the launcher alone.
func take(a *fake.Agent, f wire.Frame) error {
	var o wire.Offer
	err := errors.Join(f.Decode(&o), a.Out.SendMessage(wire.TypeOffered, wire.Offered{}))
	if err == nil && o.Size > 0 {
		err = a.Out.SendMessage(wire.TypePassed, wire.Passed{Feed: true, From: -1})
	}
	for have := int64(0); err == nil && have < o.Size; {
		if f, err = a.Expect(wire.TypePiece); err == nil {
			have += int64(len(f.Payload))
			err = a.Out.SendMessage(wire.TypePassed, wire.Passed{Have: have, From: -1})
		}
	}
	if err == nil {
		_, err = a.Expect(wire.TypeEnough)
	}
	done := wire.Passed{Have: o.Size, Done: true, Path: []byte("/f")}
	return errors.Join(err, a.Out.SendMessage(wire.TypePassed, done))
}

// errand runs an errand on hosts, by its number, and returns what it says of each: an error, and
// texts.
func errand(ctx context.Context, kind int, hosts []hostfile.Host, reach survey.Reach, file *relay.Source,
	dir string, warn func(string)) (errs []error, texts []string) {
	switch kind {
	case 0:
		for _, c := range survey.Check(ctx, hosts, reach) {
			errs = append(errs, c.Err)
			texts = append(texts, c.Machine)
		}
	case 1:
		for _, g := range survey.Inventory(ctx, hosts, reach) {
			errs = append(errs, g.Err)
			texts = append(texts, g.Warnings...)
			for _, d := range g.Devices {
				texts = append(texts, d.Name, d.UUID, d.CPUs, d.BusID)
			}
		}
	case 2:
		for _, c := range survey.Count(ctx, hosts, wire.BindSocket, reach) {
			errs = append(errs, c.Err)
		}
	case 3:
		files := []File{{file, wire.Place{Name: []byte("f")}}, {file, wire.Place{Name: []byte("g")}}}
		for _, o := range Files(ctx, hosts, files, route.Network{}, reach, warn, relay.NoMeter{}) {
			errs = append(errs, o.Err)
			for _, f := range o.Files {
				texts = append(texts, f.Path, f.From)
			}
		}
	default:
		ask := wire.Fetch{From: []wire.FetchFrom{{Patterns: wire.Texts{"*"}}}}
		open := func(i int) fetch.Open {
			folder := filepath.Join(dir, hosts[i].Name)
			return func(*fetch.List) (fetch.Folder, error) { return fetch.OpenFolder(folder) }
		}
		for _, b := range FilesBack(ctx, hosts, ask, open, reach, warn, relay.NoMeter{}) {
			errs = append(errs, b.Err)
			texts = append(append(texts, b.Notes...), b.Missing...)
		}
	}
	return errs, texts
}

// longest is more than an errand takes beside a host that has said all that its script says.
const longest = time.Hour

// Whatever a hostile host says, in whatever order, to requests without a job: gorun lives on and
// comes to an end, or to that of the context, and every other host serves the request.
func FuzzErrandsOfAHost(f *testing.F) {
	fake.AddScripts(f, 60)
	f.Fuzz(func(t *testing.T, input []byte) {
		s := &fake.Script{Rest: input[:min(len(input), 1<<10)]}
		kind := s.Next(5)
		hosts := make([]hostfile.Host, 1+s.Next(3))
		hostile := s.Next(len(hosts))
		cut := time.Duration(s.Next(3)*s.Next(60)) * time.Second
		dir := t.TempDir()
		text := strings.Repeat("text of the file\n", s.Next(3))
		must.OK(t, os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o600))
		file := must.Get(relay.Open(filepath.Join(dir, "f")))(t)
		defer file.Close()
		over := time.AfterFunc(time.Minute, func() { panic("the errand does not end") }) // in real time
		defer over.Stop()
		var warned, texts []string
		var errs []error
		synctest.Test(t, func(t *testing.T) {
			machines := map[string]*fake.Machine{}
			for i := range hosts {
				hosts[i].Name = fmt.Sprint("h", i)
				m := &fake.Machine{
					Disk: fake.NewDisk(map[string]string{"/gorun": "build one"}),
					Addresses: []wire.Address{{Interface: "eth0", Up: true,
						Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 24)}},
					Serve: func(a *fake.Agent) error { return honest(a, file) },
				}
				if i == hostile {
					m.Serve = func(a *fake.Agent) error {
						play := *s
						return play.PlayWith(a, func() error { return play.Errand(a) })
					}
				}
				machines[hosts[i].Name] = m
			}
			reach := survey.Reach{
				Dial: func(_ context.Context, h hostfile.Host) (session.Host, error) { return machines[h.Name], nil },
				Exe: session.Executable{Path: "/gorun", Build: "one",
					Hash: func() (string, error) { return strings.Repeat("0", 64), nil }},
				StartTimeout: 20 * time.Second,
				Trace:        func(string, ...any) {},
			}
			ctx := t.Context()
			if cut > 0 {
				within, cancel := context.WithTimeout(ctx, cut)
				defer cancel()
				ctx = within
			}
			began := time.Now()
			warn := func(line string) { warned = append(warned, line) }
			errs, texts = errand(ctx, kind, hosts, reach, file, dir, warn)
			took := time.Since(began)
			inTime := took < longest && (cut == 0 || took <= cut+10*time.Second)
			check.That(t, inTime, "it took %v, cut after %v", took, cut)
			synctest.Wait()
			for name, m := range machines {
				m.Mu.Lock()
				check.That(t, m.Closed, "%s was not closed", name)
				m.Mu.Unlock()
			}
		})
		for i, err := range errs {
			if err != nil {
				texts = append(texts, err.Error())
			}
			check.That(t, err == nil || i == hostile || cut > 0, "h%d: %v", i, err)
			if kind == 4 && err == nil && i != hostile {
				check.Equal(t, string(must.Get(os.ReadFile(filepath.Join(dir, hosts[i].Name, "f")))(t)), text)
			}
		}
		for _, line := range append(texts, warned...) {
			check.That(t, prose.Plain(line) == line && !strings.Contains(line, "\n") && len(line) < 10<<10,
				"not fit for a terminal: %d bytes, %.300q", len(line), line)
		}
		for _, entry := range must.Get(os.ReadDir(dir))(t) {
			known := entry.Name() == "f" || strings.HasPrefix(entry.Name(), "h") && kind == 4
			check.That(t, known, "%s was written", entry.Name())
		}
	})
}
