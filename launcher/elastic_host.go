package launcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/elastic"
	"github.com/gorun/gorun/internal/prose"
)

// sessionsPerConnection is below the limit that sshd has (MaxSessions), 10.
const sessionsPerConnection = 8

// elasticHost is a host of an elastic job, and the connections to it.
type elasticHost struct {
	index int
	host  hostfile.Host // the loop's: slots may change

	mu      sync.Mutex // held while connecting: others wait for that connection
	conns   []*elasticConn
	reached bool // once at least
}

// elasticConn is one connection, and how many processes have a session on it.
type elasticConn struct {
	Host
	used  int
	ended bool
}

// host returns the host with a name, and creates it if it is new.
func (j *elasticJob) host(name string) *elasticHost {
	for _, h := range j.hosts {
		if h.host.Name == name {
			return h
		}
	}
	h := &elasticHost{index: len(j.hosts), host: hostfile.Host{Name: name}}
	j.hosts = append(j.hosts, h)
	return h
}

// admit leaves out hosts to which there can be no connections: healthy ones would count as lost.
func (j *elasticJob) admit(list []hostfile.Host) []hostfile.Host {
	admitted, short := reachable(list, j.settings.most(), openFiles())
	if short != nil && !j.short {
		j.opts.Note(fmt.Sprintf("%v; the last %s of the list get no ranks. To use all, %s", short, prose.Count(len(list)-len(admitted), "host"), short.Hint()))
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

// connect returns a connection with room for a session, to be given back.
func (h *elasticHost) connect(ctx context.Context, at hostfile.Host, dial Dialer) (*elasticConn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		if c.used < sessionsPerConnection {
			c.used++
			return c, nil
		}
	}
	conn, err := dial(ctx, at)
	if err != nil {
		return nil, err
	}
	c := &elasticConn{Host: conn, used: 1}
	h.conns, h.reached = append(h.conns, c), true
	return c, nil
}

// dial connects to a host when it is its turn.
func (j *elasticJob) dial(ctx context.Context, h hostfile.Host) (conn Host, err error) {
	err = j.setups.do(ctx, func() error {
		conn, err = j.opts.Dial(ctx, h)
		return err
	})
	return conn, err
}

// release gives a connection back. The last session closes it.
func (h *elasticHost) release(c *elasticConn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.used--; c.used > 0 || c.ended {
		return
	}
	h.forget(c)
	_ = c.Close()
}

func (h *elasticHost) forget(c *elasticConn) {
	c.ended = true
	for i := range h.conns {
		if h.conns[i] == c {
			h.conns = append(h.conns[:i], h.conns[i+1:]...)
			return
		}
	}
}

// cut closes all connections at once, which ends their agents. Later sessions get new connections. It reports whether anything
// may still run there. Only closing waits for the connections, because their sessions' readers may wait for the loop.
func (h *elasticHost) cut(closing *sync.WaitGroup) (may bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		c.ended = true
		closing.Go(func() { _ = c.Close() })
	}
	h.conns = nil
	return h.reached
}

// fenceOff disconnects a lost host and ignores its later messages. It also tells each agent to end, since with rsh, srun and
// local hosts the sessions share no connection that could be closed.
func (j *elasticJob) fenceOff(h *elasticHost) {
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
	if !h.cut(&j.wg) {
		j.later = append(j.later, elastic.HostFenced{Host: h.host.Name})
	}
}

// lost is the driver's event for a host that does not answer.
func (j *elasticJob) lost(name string, err error) {
	j.end.Lost = append(j.end.Lost, HostError{Host: name, Err: err})
	j.notify(HostLost{name, err, j.now()})
	j.abort(elasticAbort{host: name, cause: err.Error()})
	j.step(elastic.HostLost{Host: name, Err: err})
}

// permanent reports a permanent user error before the first epoch: the job does not begin.
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
