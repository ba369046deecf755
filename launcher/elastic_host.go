package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/elastic"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher/connect"
)

// elasticHost is a host of an elastic job, and the connections to it.
type elasticHost struct {
	index int
	host  hostfile.Host // owned by the loop, because slots may change
	pool  connect.Pool

	losses int
	loss   error // latest loss

	preparing  sync.Mutex
	prepared   int   // number of losses before the latest preparation, plus 1; 0: none
	unprepared error // why that failed, or nil
}

// prepare returns the result of do, which it calls once after each loss of the host, and again if
// the process that waits for it was abandoned meanwhile.
func (h *elasticHost) prepare(ctx context.Context, losses int, do func(context.Context) error) error {
	h.preparing.Lock()
	defer h.preparing.Unlock()
	if h.prepared > losses || ctx.Err() != nil {
		return cmp.Or(context.Cause(ctx), h.unprepared)
	}
	err := do(ctx)
	if ctx.Err() == nil {
		h.prepared = losses + 1
		h.unprepared = err
	}
	return err
}

// host returns the host with a name, and creates it if it is new.
func (j *elasticJob) host(name string) *elasticHost {
	for _, h := range j.hosts {
		if h.host.Name == name {
			return h
		}
	}
	h := &elasticHost{index: len(j.hosts), host: hostfile.Host{Name: name}, pool: connect.Pool{Over: j.stager.Forget}}
	j.hosts = append(j.hosts, h)
	return h
}

// admit leaves out the hosts for which open files do not suffice: they would count as lost though
// healthy.
func (j *elasticJob) admit(list []hostfile.Host) []hostfile.Host {
	admitted, short := connect.Reachable(list, j.settings.most(), connect.OpenFiles())
	if short != nil && !j.short {
		j.opts.Note(fmt.Sprintf("%v; the last %s of the list get no ranks. To use all, %s", short,
			prose.Count(len(list)-len(admitted), "host"), short.Hint()))
	}
	j.short = short != nil
	return admitted
}

// update takes the latest entries of hosts: their slots may have changed.
func (j *elasticJob) update(list []hostfile.Host) {
	for _, h := range list {
		j.host(h.Name).host = h
	}
}

// connect returns a connection with room for a session, which the caller releases. A new one waits
// for its turn.
func (j *elasticJob) connect(ctx context.Context, h *elasticHost, at hostfile.Host) (*connect.Conn, error) {
	return h.pool.Take(func() (conn Host, err error) {
		err = j.turns.Do(ctx, func() error {
			conn, err = j.opts.dialLocated(ctx, at)
			return err
		})
		return conn, err
	})
}

// fenceOff disconnects a lost host and ignores its later messages. It also tells each agent to end,
// since with rsh, srun and local hosts the sessions share no connection that could be closed.
func (j *elasticJob) fenceOff(h *elasticHost) {
	if wait, known := j.fencedIn(h); known {
		losses := h.losses
		time.AfterFunc(wait, func() { j.post(hostFenced{h, losses}) })
	}
	for name, p := range j.procs {
		if p.host == h {
			p.cancel(errStopped)
			if p.session != nil {
				p.session.HangUp()
			}
			delete(j.procs, name)
			j.pause.without(p.serial)
		}
	}
	if !h.pool.Cut(&j.wg) {
		j.later = append(j.later, elastic.HostFenced{Host: h.host.Name})
	}
}

// hostFenced reports that no process is left on a host after one of its losses, given by number.
type hostFenced struct {
	host *elasticHost
	loss int
}

// fencedIn returns how long it takes until no process is alive on a host. It is unknown unless the
// host's network is dead and its agents detect that themselves.
func (j *elasticJob) fencedIn(h *elasticHost) (wait time.Duration, known bool) {
	if !networkDied(h.loss) {
		return 0, false
	}
	heard := time.Duration(math.MaxInt64)
	for _, p := range j.procs {
		if p.host != h {
			continue
		}
		if p.agent == nil || !p.agent.Ready.Line {
			return 0, false
		}
		heard = min(heard, p.agent.Silence())
	}
	return max(0, elasticFence-heard), heard < math.MaxInt64
}

// networkDied reports whether a connection ended because nothing was acknowledged. The kernel may
// say why, such as that nobody answers for the host's address.
func networkDied(err error) bool {
	for _, errno := range []syscall.Errno{syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// hostLost tells the ranks, the user and the driver that a host is lost.
func (j *elasticJob) hostLost(name string, err error) {
	err = j.opts.located(name, err)
	h := j.host(name)
	h.losses++
	h.loss = err
	j.end.Lost = append(j.end.Lost, HostError{Host: name, Err: err})
	j.notify(HostLost{name, err, j.now()})
	j.abort(name, nil, err.Error())
	j.step(elastic.HostLost{Host: name, Err: err})
}

// permanent reports a permanent user error before the first epoch, for which the job does not
// start.
func (j *elasticJob) permanent(p *elasticProcess, err error) bool {
	var refused *RefusedError
	if j.driver.Established() || !errors.As(err, &refused) {
		return false
	}
	why := HostError{Host: p.name.Host, Err: err}
	if failed := new(LaunchError); errors.As(j.fatal, &failed) {
		if !slices.ContainsFunc(failed.Hosts, func(h HostError) bool { return h.Host == why.Host }) {
			failed.Hosts = append(failed.Hosts, why)
		}
		return true
	}
	j.fatal = &LaunchError{Hosts: []HostError{why}}
	j.step(elastic.UserStop{Code: CodeLaunch, Now: true})
	return true
}
