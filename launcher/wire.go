package launcher

import (
	"github.com/gorun/gorun/internal/elastic"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/core"
	"github.com/gorun/gorun/launcher/route"
	"github.com/gorun/gorun/launcher/session"
)

// This file converts between the public types and the messages of package wire.

func contactOf(s *session.Session) route.Contact {
	_, local := s.Conn.(Local)
	return route.ContactOf(s.Hello, local)
}

func unkillableOn(host string, left []wire.Process) (all []Unkillable) {
	for _, p := range left[:min(len(left), wire.MaxUnkillable)] {
		p.Name = session.Clean(p.Name)
		p.State = session.Clean(p.State)
		all = append(all, Unkillable{Host: host, Process: core.Process(p)})
	}
	return all
}

// rankOf returns a process of an elastic job as a rank of one epoch.
func rankOf(m elastic.Member) Rank {
	return Rank{
		Rank:      m.Rank,
		LocalRank: m.LocalRank,
		CrossRank: m.CrossRank,
		CrossSize: m.CrossSize,
	}
}
