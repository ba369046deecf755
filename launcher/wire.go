package launcher

import (
	"github.com/gorun/gorun/internal/elastic"
	"github.com/gorun/gorun/internal/wire"
	"github.com/gorun/gorun/launcher/route"
	"github.com/gorun/gorun/launcher/session"
)

// This file converts between the public types and the messages of package wire.

func contactOf(s *session.Session) route.Contact {
	_, local := s.Conn.(Local)
	return route.ContactOf(s.Hello, local)
}

func placementsOf(places []wire.Location) (all []Placement) {
	for _, p := range places {
		all = append(all, Placement(p))
	}
	return all
}

func unkillableOn(host string, left []wire.Process) (all []Unkillable) {
	for _, p := range left[:min(len(left), wire.MaxUnkillable)] {
		p.Name, p.State = session.Clean(p.Name), session.Clean(p.State)
		all = append(all, Unkillable{Host: host, Process: Process(p)})
	}
	return all
}

func wireRanks(ranks []Rank) []wire.Rank {
	all := make([]wire.Rank, 0, len(ranks))
	for _, r := range ranks {
		all = append(all, wire.Rank(r))
	}
	return all
}

func wirePrograms(programs []Program) (all []wire.Program) {
	for _, p := range programs {
		all = append(all, wire.Program{Argv: bytesOf(p.Argv), Env: bytesOf(p.Env), Wdir: []byte(p.Wdir), Drop: p.Drop})
	}
	return all
}

func wireTools(tools []Tool) (all []wire.Tool) {
	for _, t := range tools {
		all = append(all, wire.Tool{Rank: t.Rank, Argv: bytesOf(t.Argv), Terminal: t.Terminal, Halt: t.Halt})
	}
	return all
}

// bytesOf encodes texts from the user, which may hold bytes that JSON strings cannot.
func bytesOf(texts []string) (all [][]byte) {
	for _, t := range texts {
		all = append(all, []byte(t))
	}
	return all
}

// rankOf is a process of an elastic job as a rank of one epoch.
func rankOf(m elastic.Member) Rank {
	return Rank{Rank: m.Rank, LocalRank: m.LocalRank, CrossRank: m.CrossRank, CrossSize: m.CrossSize}
}
