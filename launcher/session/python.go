package session

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path"
	"sync"

	"github.com/gorun/gorun/internal/files/pyenv"
	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/net/wire"
)

// Python is a Python environment of this machine that a job's ranks run in, each host in a copy of
// its own. Close it after the job.
type Python struct {
	Env *pyenv.Env
	// Base is the folder of the copies on hosts, absolute or below the home directory; "": they
	// choose one.
	Base string

	mu     sync.Mutex
	source *relay.Source // pack of the environment; nil: no host has needed it yet
	group  *relay.Group
}

// Close removes the pack. A nil *Python does nothing.
func (p *Python) Close() {
	if p != nil && p.source != nil {
		_ = p.source.Close() // it was only read
	}
}

// hosts returns the group of hosts that lack the environment. It packs the environment for the
// first of them.
func (p *Python) hosts(trace func(string, ...any), note func(string), meter relay.Meter) (*relay.Group, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.group != nil {
		return p.group, nil
	}
	trace("packing %s: %d files, %d bytes", p.Env.Dir, p.Env.Files, p.Env.Bytes)
	source, err := relay.Pack(func(to *os.File) error { return p.Env.Pack(to) })
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", p.Env.Dir, err)
	}
	p.source = source
	p.group = relay.NewGroup(p.source, p.place(), 0, trace, note)
	p.group.Count(meter)
	return p.group, nil
}

func (p *Python) place() wire.Place {
	return wire.Place{Use: wire.UseEnvironment, Dir: []byte(p.Base), Name: []byte(p.Env.Key)}
}

// bring makes the environment on a host, unless it is there, and returns its path. Hosts that lack
// it pass it on among themselves; they reach this one at addrs.
func (p *Python) bring(ctx context.Context, s *Session, addrs []netip.Addr, trace func(string, ...any),
	note func(string), meter relay.Meter) (dir string, err error) {
	name := s.Host.Name
	var has wire.Offered
	err = s.during(ctx, func() error {
		return s.request(wire.TypeOffer, Encode(wire.Offer{Place: p.place(), Ask: true}), wire.TypeOffered, &has)
	})
	if err == nil && len(has.Path) == 0 {
		var group *relay.Group
		if group, err = p.hosts(trace, note, meter); err == nil {
			var d relay.Delivered
			d, err = s.TakeFile(ctx, group, addrs)
			has.Path = []byte(d.Path)
			trace("%s: made the environment %s, from %d bytes of this machine", name, d.Path, d.Fed)
		}
	} else if err == nil {
		trace("%s: the environment is there: %s", name, Clean(string(has.Path)))
	}
	if dir = string(has.Path); err == nil && (!path.IsAbs(dir) || len(dir) > wire.MaxPath) {
		err = &wire.FormatError{Reason: fmt.Sprintf("the environment is at %.100q, which cannot be", dir)}
	}
	if err != nil {
		return "", fmt.Errorf("bring %s: %w", p.Env.Dir, err)
	}
	return dir, nil
}
