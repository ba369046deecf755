package launcher

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/files/fetch"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/connect"
	"github.com/gorun/gorun/launcher/core"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/session"
)

// Back is which files come back from the hosts when the job has ended, also if it has failed.
type Back struct {
	Patterns []string // patterns as of path.Match, of paths below the ranks' working folders
	Dir      string   // absolute; it gets a folder for each host if there are several
}

// BringingBack is an [Event]: the ranks have ended, and files come back.
type BringingBack struct {
	OpenLine bool // whether the ranks' last line where stderr goes has no end
}

// openTime bounds the start of an agent that sends files back.
const openTime = time.Minute

// backHost is a host on which ranks ran, from which files come back.
type backHost struct {
	name  string
	wdirs []Text // working folders of its ranks, distinct
	lost  bool
	// open starts an agent, and returns what ends it.
	open func(context.Context) (*session.Session, func(), error)
}

// foldersOf returns the distinct working folders of programs.
func foldersOf(programs []Program) (all []Text) {
	for _, p := range programs {
		if !slices.Contains(all, p.Wdir) {
			all = append(all, p.Wdir)
		}
	}
	return all
}

// bringBack brings files of hosts back, and sets what it leads to in result. A request to stop ends
// it.
func (l *loop) bringBack(ctx context.Context, hosts []backHost, result *Result) {
	if l.opts.Back == nil {
		return
	}
	l.notify(BringingBack{OpenLine: result.OpenLine})
	result.OpenLine = false
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var stopped StopReason
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case s := <-l.opts.Stops:
			stopped = s.Reason
			cancel(errors.New("it was stopped"))
		case <-ctx.Done():
		}
	})
	result.Back = l.back(ctx, hosts)
	cancel(nil)
	watch.Wait()
	if stopped != NotStopped && result.Code() == 0 {
		result.Stopped = stopped
	}
}

func (l *loop) back(ctx context.Context, hosts []backHost) *core.Back {
	b := &core.Back{Dir: l.opts.Back.Dir}
	here, remove, err := fetch.Mark(b.Dir)
	if err != nil {
		b.Failed = []HostError{{Host: fetch.ThisMachine, Err: err}}
		return b
	}
	defer remove()
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.name
	}
	folders := fetch.HostFolders(names)
	got := make([]fetch.Got, len(hosts))
	errs := make([]error, len(hosts))
	turns := connect.NewTurns()
	var work sync.WaitGroup
	for i, h := range hosts {
		work.Go(func() {
			errs[i] = turns.Do(ctx, func() (err error) {
				got[i], err = l.backFrom(ctx, h, &here, filepath.Join(b.Dir, folders[i]))
				return err
			})
		})
	}
	work.Wait()
	var empty []HostError
	var local *fetch.LocalError
	for i, g := range got {
		switch {
		case errors.As(errs[i], &local): // several hosts' files may meet it
		case errs[i] != nil:
			b.Failed = append(b.Failed, HostError{Host: names[i], Err: errs[i]})
		case len(g.Entries) == 0 && !g.Shared:
			empty = append(empty, HostError{Host: names[i], Err: fmt.Errorf("nothing matches %s",
				strings.Join(l.opts.Back.Patterns, " or "))})
		default:
			b.Hosts++
			b.Files += g.Files
			b.Bytes += g.Bytes
		}
		for _, note := range g.Notes {
			b.Notes = append(b.Notes, names[i]+": "+note)
		}
	}
	if local != nil {
		b.Failed = append(b.Failed, HostError{Host: fetch.ThisMachine, Err: local})
	} else if b.Hosts == 0 {
		b.Failed = append(b.Failed, empty...)
	}
	return b
}

// backFrom brings the files of one host into dir. here is a file in the launcher's folder.
func (l *loop) backFrom(ctx context.Context, h backHost, here *wire.Mark, dir string) (got fetch.Got, err error) {
	if h.lost {
		return got, errors.New("the host was lost, and its files are there still")
	}
	start, cancel := context.WithTimeoutCause(ctx, openTime, fmt.Errorf("no answer within %v", openTime))
	defer cancel()
	s, end, err := h.open(start)
	if err != nil {
		return got, err
	}
	defer end()
	ask := wire.Fetch{Here: here}
	for _, wdir := range h.wdirs {
		ask.From = append(ask.From, wire.FetchFrom{Dir: wdir, Patterns: l.opts.Back.Patterns})
	}
	got, err = s.Fetch(ctx, ask, func(*fetch.List) (fetch.Folder, error) { return fetch.OpenFolder(dir) },
		l.opts.Meter)
	if err == nil {
		l.opts.Trace("%s: %d files came back to %s", h.name, got.Files, dir)
	}
	return got, err
}

// backHosts lists the hosts of the job from which files come back.
func (j *job) backHosts(r Result) (all []backHost) {
	lost := map[string]bool{}
	for _, h := range r.Lost {
		lost[h.Host] = true
	}
	for i, h := range j.plan.Hosts {
		_, local := j.hosts[i].(Local)
		programs, _ := plan.ProgramsFor(h.Ranks, j.opts.Programs, local)
		j.work.Place(i, programs)
		all = append(all, backHost{
			name:  h.Name,
			wdirs: foldersOf(programs),
			lost:  lost[h.Name],
			open: func(ctx context.Context) (*session.Session, func(), error) {
				j.sessions[i].Close() // a host may allow one session at a time
				s, err := j.stager.Agent(ctx, j.hosts[i], session.Identity{Index: i, Host: &j.plan.Hosts[i]})
				if err != nil {
					return nil, nil, err
				}
				return s, s.Close, nil
			},
		})
	}
	return all
}

// backHosts lists the hosts on which processes ran.
func (j *elasticJob) backHosts() (all []backHost) {
	seen := map[*elasticHost]bool{}
	for _, p := range j.serials {
		h := p.host
		if !p.ran || seen[h] {
			continue
		}
		seen[h] = true
		programs := []Program{plan.RunOn(j.opts.Programs[0], p.local)}
		j.work.Place(h.index, programs)
		all = append(all, backHost{
			name:  h.host.Name,
			wdirs: foldersOf(programs),
			open: func(ctx context.Context) (*session.Session, func(), error) {
				conn, err := j.connect(ctx, h, h.host)
				if err != nil {
					return nil, nil, err
				}
				s, err := j.stager.Agent(ctx, conn.Host, session.Identity{Host: &PlannedHost{Host: h.host}})
				if err != nil {
					h.pool.Release(conn)
					return nil, nil, err
				}
				return s, func() {
					s.Close()
					h.pool.Release(conn)
				}, nil
			},
		})
	}
	return all
}
