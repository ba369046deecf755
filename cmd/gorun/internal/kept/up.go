// Package kept is gorun up and gorun down: a gorun in the background that keeps hosts connected for
// the user's other goruns.
package kept

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/exitcode"
	"github.com/gorun/gorun/cmd/gorun/internal/hosts"
	"github.com/gorun/gorun/cmd/gorun/internal/installed"
	"github.com/gorun/gorun/cmd/gorun/internal/job"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/net/keep"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/connect"
	"github.com/gorun/gorun/launcher/session"
	"github.com/gorun/gorun/launcher/transport"
	"github.com/gorun/gorun/launcher/transport/kept"
	"github.com/gorun/gorun/ssh"
)

// Command is the hidden command of a gorun that a run starts to keep its hosts: the words of the
// run follow.
const Command = "__keep"

// Limits are the times after which a keeper ends; 0 is no limit. Running jobs continue to their
// end.
type Limits struct {
	For  time.Duration // since its start
	Idle time.Duration // without a job
}

// find returns the hosts of a run that can be kept, and an error for each of the others. Without
// any host, it fails. Without again it leaves out hosts that are kept already.
func find(ctx context.Context, o *settings.Options, again bool) (all []keep.Host, others []error, err error) {
	if o.Elastic.Discovery != "" {
		err := usage.Errorf("name the hosts with -H or --hostfile",
			"hosts of a discovery script come and go, and are not kept")
		return nil, []error{err}, nil
	}
	if o.Pods != "" {
		err := usage.Errorf("name the hosts with -H or --hostfile", "pods come and go, and are not kept")
		return nil, []error{err}, nil
	}
	where, err := hosts.Find(ctx, o, hosts.NewFinder(nil))
	if err != nil {
		return nil, nil, err
	}
	routes, err := transport.NewRoutes(o.Options)
	if err != nil {
		return nil, nil, err
	}
	resolver := &ssh.Resolver{}
	finder := &kept.Finder{Place: control.FindPlace(os.Getenv), Trace: func(string, ...any) {}}
	for _, h := range where.Hosts {
		k, by, ok, err := routes.Kept(ctx, o.Options, h, resolver, finder)
		switch {
		case err != nil:
			return nil, nil, err
		case !ok && routes.Of(h) == "local":
			others = append(others, usage.Errorf("for example: gorun up -H f1:2,f2:2",
				"%s is this machine, which needs no connection", h.Name))
		case !ok:
			others = append(others, usage.Errorf("gorun up keeps connections of the built-in SSH client",
				"%s is reached by %s, which has no connection to keep", h.Name, routes.Of(h)))
		case by != "" && !again:
		case !slices.ContainsFunc(all, func(other keep.Host) bool { return other.Identity == k.Identity }):
			all = append(all, k)
		}
	}
	if err := connect.CheckFiles(len(all)); err != nil {
		return nil, nil, err
	}
	return all, others, nil
}

// Start starts a keeper in the background with the words of a run and waits until its hosts are
// connected. It returns its id, or "" with the exit code of one that failed.
func Start(argv []string) (id string, code int, err error) {
	caught := make(chan os.Signal, 4)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(caught)
	return job.Detach(argv, os.Stderr, caught)
}

// Ensure starts a keeper for the hosts of a run that no keeper has. argv is the run's.
func Ensure(ctx context.Context, o *settings.Options, argv []string, console *ui.UI) error {
	all, others, err := find(ctx, o, false)
	for _, why := range others {
		console.Tracef("not kept: %v", why)
	}
	if err != nil || len(all) == 0 {
		return err
	}
	id, code, err := Start(slices.Concat(argv[:1], []string{Command}, argv[1:]))
	switch {
	case err != nil:
		return err
	case id == "" && code != 0: // another keeper may have been faster
		return fmt.Errorf("keep the hosts: its gorun ended with exit code %d", code)
	}
	console.Tracef("%s keeps %s", id, prose.Count(len(all), "host"))
	return nil
}

// Keeper is what a keeper in the background does.
type Keeper struct {
	Again   bool // it also keeps the hosts of other keepers, and replaces these keepers
	Limits  Limits
	Preload []string // modules of Python that ranks find imported
	Words   []string // what gorun ps shows
	Waiting *os.File // pipe to the gorun that waits until the hosts are connected
}

// Serve runs a keeper: it connects to the hosts of a run, and keeps them until a request or a limit
// ends it.
func (kept Keeper) Serve(ctx context.Context, o *settings.Options, console *ui.UI) (code int, err error) {
	all, others, err := find(ctx, o, kept.Again)
	switch {
	case err != nil:
		return 0, err
	case len(all) == 0:
		return 0, errors.Join(others[:min(1, len(others))]...)
	}
	for _, why := range others {
		console.Warningf("%v", why)
	}
	preloads, err := newPreloads(ctx, o, kept.Preload, console)
	if err == nil {
		err = reside(o, all, preloads, console)
	}
	if err != nil {
		return 0, err
	}
	keeper := keep.New(all, console.Tracef)
	dialing, cancel := context.WithTimeoutCause(ctx, time.Duration(o.StartTimeout),
		fmt.Errorf("not connected within %v (--start-timeout)", time.Duration(o.StartTimeout)))
	defer cancel()
	life, end := context.WithCancel(ctx)
	defer end()
	failed := keeper.Connect(dialing)
	var keeping sync.WaitGroup
	keeping.Go(func() { keeper.Keep(life) })
	defer keeping.Wait()
	defer end()
	hosts := preloads.failures()
	for _, f := range failed {
		hosts = append(hosts, launcher.HostError{Host: f.Host, Err: f.Err})
	}
	if len(hosts) > 0 {
		console.ReportHosts(hosts)
		return exitcode.Launch, nil
	}
	stops := make(chan control.Stop, 8)
	place := control.FindPlace(os.Getenv)
	server := control.New(control.Options{Place: place, Job: describe(all, kept.Words),
		Actions: control.Actions{Stream: keeper.Serve, Stop: func(s control.Stop) { stops <- s }}})
	if err := server.Listen(); err != nil {
		return 0, usage.Errorf("set XDG_STATE_HOME to a folder of yours on a local disk",
			"make the socket by which jobs find kept hosts: %w", err)
	}
	caught := make(chan os.Signal, 4)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(caught)
	if kept.Again {
		replace(ctx, place, server.ID(), all, console)
	}
	job.Leave(kept.Waiting, server.ID())
	wait(keeper, kept.Limits, stops, caught)
	end()
	return 0, server.Close()
}

// reside makes the hosts start a resident agent, and with it a warm interpreter.
func reside(o *settings.Options, all []keep.Host, preloads *preloads, console *ui.UI) error {
	exe, err := installed.Own()
	if err != nil {
		return err
	}
	stager := session.NewStager(exe, time.Duration(o.StartTimeout), console.Tracef, session.NoMeter{})
	for i := range all {
		all[i].Reside = func(ctx context.Context, conn keep.Conn) (*keep.Resident, error) {
			r, err := resideOn(ctx, conn, stager, exe.Build)
			if err == nil {
				preloads.start(ctx, all[i].Name, r)
			}
			return r, err
		}
	}
	return nil
}

// resideOn brings gorun to the host of a connection, and starts a resident agent there.
func resideOn(ctx context.Context, conn keep.Conn, stager *session.Stager, build string) (*keep.Resident, error) {
	defer stager.Forget(conn) // the host may be lost and found without end
	s, err := stager.Agent(ctx, conn, session.Identity{})
	if err != nil {
		return nil, err
	}
	s.Close()
	at, known := stager.Paths(conn)
	if !known {
		return nil, errors.New("gorun was not found there")
	}
	return keep.StartResident(ctx, conn, build, func(args ...string) []string {
		return session.Command(conn, at, args...)
	})
}

func describe(all []keep.Host, words []string) control.Job {
	j := control.Job{
		State:   control.Keeping,
		PID:     os.Getpid(),
		Program: words,
		Hosts:   []control.Host{},
	}
	j.Dir, _ = os.Getwd()
	for _, h := range all {
		j.Hosts = append(j.Hosts, control.Host{Host: h.Name, Ranks: []int{}})
	}
	return j
}

// replace ends the other keepers whose hosts the keeper with an id also keeps, all by the same way.
func replace(ctx context.Context, place control.Place, id string, all []keep.Host, console *ui.UI) {
	keepers, _ := place.Keepers() // a keeper that is not found stays
	for _, k := range keepers {
		old, err := k.Job(ctx)
		if err != nil || k.ID == id {
			continue
		}
		left := len(old.Hosts)
		for _, h := range all {
			var unknown *control.AnswerError
			err := k.Ask(ctx, "/v1/"+keep.PathReach, keep.Request{Identity: h.Identity}, &keep.Reached{}, 64<<10)
			if !errors.As(err, &unknown) || unknown.Status != http.StatusNotFound {
				left--
			}
		}
		if left == 0 && k.Stop(ctx, control.Stop{Signal: int(syscall.SIGTERM)}) == nil {
			console.Notef("it replaces %s, which ends with the last job that uses it", k.ID)
		}
	}
}

// wait returns when the keeper must end: for a limit or a request once no job uses it, for a signal
// or an immediate request at once.
func wait(keeper *keep.Keeper, limits Limits, stops <-chan control.Stop, caught <-chan os.Signal) {
	var over <-chan time.Time
	if limits.For > 0 {
		over = time.After(limits.For)
	}
	draining := false
	for {
		active, since, changed := keeper.Use()
		if draining && active == 0 {
			return
		}
		var idle <-chan time.Time
		if limits.Idle > 0 && active == 0 {
			idle = time.After(time.Until(since.Add(limits.Idle)))
		}
		select {
		case <-changed:
			continue
		case s := <-stops:
			if s.Now {
				return
			}
		case <-caught:
			return
		case <-over:
		case <-idle:
		}
		draining = true
		keeper.Drain()
	}
}

// Down ends the named keepers, or all. Jobs on their hosts continue unless now is set.
func Down(ctx context.Context, place control.Place, names []string, now bool, console *ui.UI) error {
	all, err := place.List(ctx, false)
	if err != nil {
		return fmt.Errorf("list the goruns that keep hosts: %w", err)
	}
	var ended, unknown []string
	unknown = slices.Clone(names)
	for _, f := range all {
		if f.State != control.Keeping || f.Client == nil || len(names) > 0 && !slices.Contains(names, f.ID) {
			continue
		}
		unknown = slices.DeleteFunc(unknown, func(name string) bool { return name == f.ID })
		if err := f.Client.Stop(ctx, control.Stop{Signal: int(syscall.SIGTERM), Now: now}); err != nil {
			return fmt.Errorf("end %s: %w", f.ID, err)
		}
		ended = append(ended, f.ID)
	}
	switch {
	case len(unknown) > 0:
		return usage.Errorf("gorun ps lists those that do", "no gorun keeps hosts by the name %s",
			strings.Join(unknown, ", "))
	case len(ended) == 0:
		console.Notef("no host is kept")
	}
	return nil
}

// Names returns the ids of the user's keepers.
func Names(place control.Place) (ids []string) {
	all, _ := place.Keepers()
	for _, k := range all {
		ids = append(ids, k.ID)
	}
	return ids
}
