// Package deliver brings files to hosts and back without a job. The launcher sends each file once,
// and hosts pass it on.
package deliver

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/files/fetch"
	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/connect"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/route"
	"github.com/gorun/gorun/launcher/session"
	"github.com/gorun/gorun/launcher/survey"
)

// File is a file of this machine, and where hosts put it.
type File struct {
	Source *relay.Source
	Place  wire.Place
}

// Outcome is what became of the files on one host.
type Outcome struct {
	Host  hostfile.Host
	Files []relay.Delivered // files that the host has, in order
	Err   error             // nil: the host has all files
}

// Files connects to all hosts side by side and brings them the files, one after the other. network
// chooses the addresses at which hosts reach each other. warn gets lines for the user. It leaves
// nothing running. The outcome is in the order of hosts.
func Files(ctx context.Context, hosts []hostfile.Host, files []File, network route.Network, reach survey.Reach,
	warn func(string), meter relay.Meter) []Outcome {
	d := newDelivery(hosts, reach, warn)
	defer d.close()
	errs := d.connect(ctx)
	addrs := d.addresses(network, errs)
	all := make([]Outcome, len(hosts))
	for i, h := range hosts {
		all[i] = Outcome{Host: h, Err: errs[i]}
	}
	for _, f := range files {
		group := relay.NewGroup(f.Source, f.Place, len(hosts), reach.Trace, warn)
		group.Count(meter)
		var work sync.WaitGroup
		for i := range hosts {
			if all[i].Err != nil {
				group.Miss()
				continue
			}
			work.Go(func() {
				got, err := d.sessions[i].TakeFile(ctx, group, addrs[i])
				if all[i].Err = err; err == nil {
					all[i].Files = append(all[i].Files, got)
				}
			})
		}
		work.Wait()
	}
	return all
}

// Back is what came back from one host.
type Back struct {
	Host hostfile.Host
	fetch.Got
	Err error // nil: all that the host has came
}

// FilesBack connects to all hosts side by side and brings files of them into the folders that open
// gives for each, by its index. warn gets lines for the user. It leaves nothing running. The result
// is in the order of hosts.
func FilesBack(ctx context.Context, hosts []hostfile.Host, ask wire.Fetch, open func(i int) fetch.Open,
	reach survey.Reach, warn func(string), meter relay.Meter) []Back {
	d := newDelivery(hosts, reach, warn)
	defer d.close()
	all := make([]Back, len(hosts))
	var work sync.WaitGroup
	for i, err := range d.connect(ctx) {
		all[i] = Back{Host: hosts[i], Err: err}
		if err != nil {
			continue
		}
		work.Go(func() {
			all[i].Got, all[i].Err = d.sessions[i].Fetch(ctx, ask, open(i), meter)
		})
	}
	work.Wait()
	return all
}

type delivery struct {
	hosts    []hostfile.Host
	reach    survey.Reach
	warn     func(string)
	conns    []session.Host // by index of the host, as are sessions
	sessions []*session.Session
}

func newDelivery(hosts []hostfile.Host, reach survey.Reach, warn func(string)) *delivery {
	return &delivery{
		hosts:    hosts,
		reach:    reach,
		warn:     warn,
		sessions: make([]*session.Session, len(hosts)),
		conns:    make([]session.Host, len(hosts)),
	}
}

// connect starts an agent on each host. The result has an error for each that failed.
func (d *delivery) connect(ctx context.Context) []error {
	if d.reach.StartTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d.reach.StartTimeout,
			fmt.Errorf("no answer within %v (--start-timeout)", d.reach.StartTimeout))
		defer cancel()
	}
	stager := session.NewStager(d.reach.Exe, d.reach.StartTimeout, d.reach.Trace, relay.NoMeter{})
	stager.Hosts = len(d.hosts)
	names := make([]string, len(d.hosts))
	for i, h := range d.hosts {
		names[i] = h.Name
	}
	return connect.EveryHost(ctx, names, d.warn, connect.Step{Doing: "connecting",
		Do: func(ctx context.Context, i int) (err error) {
			d.conns[i], err = d.reach.Dial(ctx, d.hosts[i])
			return err
		}}, connect.Step{Doing: "starting its agent", Do: func(ctx context.Context, i int) (err error) {
		d.sessions[i], err = stager.Agent(ctx, d.conns[i], session.Identity{Host: &plan.Host{Host: d.hosts[i]}})
		return err
	}})
}

// addresses returns, for each host, the addresses at which the others reach it; nil if there is
// only one host. A host without a usable address gets an error.
func (d *delivery) addresses(network route.Network, errs []error) [][]netip.Addr {
	addrs := make([][]netip.Addr, len(d.hosts))
	var contacts []route.Contact
	var index []int
	for i, s := range d.sessions {
		if errs[i] == nil {
			_, local := d.conns[i].(session.Local)
			contacts = append(contacts, route.ContactOf(s.Hello, local))
			index = append(index, i)
		}
	}
	if len(contacts) < 2 {
		return addrs
	}
	chosen, wrong := route.Addresses(contacts, network)
	for j, i := range index {
		if errs[i] = wrong[j]; errs[i] != nil {
			continue
		}
		for _, a := range chosen[j] {
			addrs[i] = append(addrs[i], a.Prefix.Addr())
		}
	}
	return addrs
}

// close closes all sessions and connections side by side.
func (d *delivery) close() {
	var work sync.WaitGroup
	for i, conn := range d.conns {
		work.Go(func() {
			if s := d.sessions[i]; s != nil {
				s.Close()
			}
			if conn != nil {
				_ = conn.Close()
			}
		})
	}
	work.Wait()
}
