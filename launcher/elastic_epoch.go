package launcher

import (
	"crypto/rand"
	"errors"
	"maps"
	"slices"

	"github.com/gorun/gorun/internal/elastic"
	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher/core"
	"github.com/gorun/gorun/launcher/route"
	"github.com/gorun/gorun/launcher/session"
)

// elasticEpoch is the epoch in force.
type elasticEpoch struct {
	plan    elastic.Plan
	members map[elastic.Process]elastic.Member
	fences  *core.Fences
	aborted bool
}

func newElasticEpoch(plan elastic.Plan) *elasticEpoch {
	e := &elasticEpoch{plan: plan, members: map[elastic.Process]elastic.Member{},
		fences: core.NewFences(plan.Epoch, len(plan.Members))}
	for _, m := range plan.Members {
		e.members[m.Process] = m
	}
	return e
}

// announce admits the members of a plan to its epoch.
func (j *elasticJob) announce(plan elastic.Plan) {
	j.epoch = newElasticEpoch(plan)
	j.store.DeleteFunc(func(key string) bool { return kv.IsOver(key, plan.Epoch) })
	key := make([]byte, 32)
	rand.Read(key)
	addrs := j.addressesOf(plan)
	begin := wire.Start{}
	if zero := j.procs[plan.Members[0].Process]; zero != nil && zero.agent != nil && len(addrs[zero.name.Host]) > 0 {
		begin.MasterAddr = addrs[zero.name.Host][0]
		begin.MasterPort = zero.agent.Ready.FreePort
	}
	for _, m := range plan.Members {
		p := j.procs[m.Process]
		if p == nil || p.session == nil {
			continue // the process has just ended, and its event will reach the driver
		}
		p.place.Store(&place{plan.Epoch, m.Rank})
		j.setPrefix(p)
		p.session.Out.SendMessage(wire.TypeEpoch, wire.Epoch{
			Number:    plan.Epoch,
			Key:       key,
			Size:      m.Size,
			Rank:      m.Rank,
			LocalRank: m.LocalRank,
			LocalSize: m.LocalSize,
			CrossRank: m.CrossRank,
			CrossSize: m.CrossSize,
			Node:      m.Node,
			Nodes:     m.Nodes,
			Addrs:     addrs[m.Host],
		})
		if j.settings.Together {
			begin.Addrs = addrs[m.Host]
			p.session.Out.SendMessage(wire.TypeStart, begin)
		}
	}
	j.opts.Trace("epoch %d begins: %s on %s", plan.Epoch, prose.Count(len(plan.Members), "rank"),
		prose.Count(plan.Members[0].Nodes, "host"))
}

// addressesOf returns the known addresses of a plan's hosts.
func (j *elasticJob) addressesOf(plan elastic.Plan) map[string][]string {
	var names []string
	var contacts []route.Contact
	for _, m := range plan.Members {
		if p := j.procs[m.Process]; p != nil && p.session != nil && (len(names) == 0 || names[len(names)-1] != m.Host) {
			names = append(names, m.Host)
			contacts = append(contacts, p.contact())
		}
	}
	chosen, _ := route.Addresses(contacts, j.opts.Network) // errors were reported when the process was started
	texts := map[string][]string{}
	for i, list := range chosen {
		texts[names[i]] = route.AddrTexts(list)
	}
	return texts
}

// addressesAlone returns the addresses with which a host's process starts, before other hosts are
// known. Stock Horovod keeps the first one's interface, so it is not loopback if there may be other
// hosts.
func (j *elasticJob) addressesAlone(name string, c route.Contact) ([]wire.Address, error) {
	j.mu.Lock()
	j.contacts[name] = c
	known := []route.Contact{c}
	for _, other := range slices.Sorted(maps.Keys(j.contacts)) {
		if other != name {
			known = append(known, j.contacts[other])
		}
	}
	j.mu.Unlock()
	s := route.NewSurvey(known)
	s.Here = s.Here && j.settings.Discover == nil && len(j.settings.Hosts) <= 1
	chosen, errs := s.Addresses(known[:1], j.opts.Network)
	return chosen[0], errs[0]
}

// interrupt makes the ranks of an epoch ask for the next one, or abort the one in force.
func (j *elasticJob) interrupt(act elastic.Interrupt) {
	switch {
	case !act.Abort:
		j.toMembers(wire.TypeInterrupt, wire.Interrupt{Epoch: act.Epoch})
	case !j.epoch.aborted:
		j.epoch.aborted = true
		j.toMembers(wire.TypeAbort, wire.Abort{
			Epoch: act.Epoch,
			Rank:  -1,
			Cause: "not all ranks take part in this epoch any more",
		})
	}
}

func (j *elasticJob) toMembers(t wire.Type, message any) {
	if j.epoch == nil {
		return
	}
	for _, m := range j.epoch.plan.Members {
		if p := j.procs[m.Process]; p != nil && p.session != nil && !p.exited {
			p.session.Out.SendMessage(t, message)
		}
	}
}

// abort tells the ranks of the epoch in force to abort, once, if the process, or one of the host if
// p is nil, is in it.
func (j *elasticJob) abort(host string, p *elasticProcess, cause string) {
	if j.epoch == nil || j.epoch.aborted {
		return
	}
	rank := -1
	concerns := slices.ContainsFunc(j.epoch.plan.Members, func(m elastic.Member) bool { return m.Host == host })
	if p != nil {
		var m elastic.Member
		m, concerns = j.memberOf(p)
		rank = m.Rank
	}
	if concerns {
		j.abortFor(host, rank, cause)
	}
}

// abortFor tells the ranks of the epoch in force to abort, once, because of a rank of it, or of a
// host if rank is -1.
func (j *elasticJob) abortFor(host string, rank int, cause string) {
	if j.epoch.aborted {
		return
	}
	j.epoch.aborted = true
	j.toMembers(wire.TypeAbort, wire.Abort{
		Epoch: j.epoch.plan.Epoch,
		Rank:  rank,
		Host:  host,
		Cause: cause,
	})
}

// abortStuck tells the ranks of the epoch in force to abort if some wait in a fence for one that
// has ended.
func (j *elasticJob) abortStuck() {
	if stuck := j.epoch.fences.Stuck(); stuck != nil {
		j.abortFor(j.epoch.plan.Members[stuck.Rank].Host, stuck.Rank, stuck.AbortCause())
	}
}

// fence records a rank's value, and sends all values to all ranks when they are complete.
func (j *elasticJob) fence(p *elasticProcess, f wire.Fence) error {
	m, member := j.memberOf(p)
	if !member || f.Epoch != j.epoch.plan.Epoch {
		return nil // message of an epoch that is over
	}
	if err := session.CheckFence(f, func(rank int) bool { return rank == m.Rank }); err != nil {
		return err
	}
	all, err := j.epoch.fences.Add(p.name.Host, f)
	if all != nil {
		j.toMembers(wire.TypeFenced, *all)
	}
	var twice *kv.DuplicateError
	var full *kv.FullError
	var stuck *core.RankLost
	switch {
	case errors.As(err, &twice), errors.As(err, &full): // a host could end each epoch so
		return &wire.FormatError{Reason: err.Error()}
	case errors.As(err, &stuck):
		j.abortStuck()
	case err != nil:
		j.abort(p.name.Host, p, err.Error())
	}
	return nil
}

// memberOf returns a process's member of the epoch in force; false if the epoch has none.
func (j *elasticJob) memberOf(p *elasticProcess) (elastic.Member, bool) {
	if j.epoch == nil {
		return elastic.Member{}, false
	}
	m, member := j.epoch.members[p.name]
	return m, member
}
