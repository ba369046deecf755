package session

import (
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/plan"
)

// Ranks are ranks of a plan as a job's message has them.
func Ranks(ranks []plan.Rank) []wire.Rank {
	all := make([]wire.Rank, 0, len(ranks))
	for _, r := range ranks {
		all = append(all, wire.Rank(r))
	}
	return all
}

// Programs are those of a plan as a job's message has them.
func Programs(programs []plan.Program) (all []wire.Program) {
	for _, p := range programs {
		all = append(all, wire.Program{
			Argv: Bytes(p.Argv),
			Env:  Bytes(p.Env),
			Wdir: []byte(p.Wdir),
			Drop: p.Drop,
		})
	}
	return all
}

// Tools are those of a plan as a job's message has them.
func Tools(tools []plan.Tool) (all []wire.Tool) {
	for _, t := range tools {
		all = append(all, wire.Tool{
			Rank:     t.Rank,
			Argv:     Bytes(t.Argv),
			Terminal: t.Terminal,
			Halt:     t.Halt,
		})
	}
	return all
}

// Bytes encodes texts from the user, which may hold bytes that JSON strings cannot.
func Bytes(texts []string) (all [][]byte) {
	for _, t := range texts {
		all = append(all, []byte(t))
	}
	return all
}
