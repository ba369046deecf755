package plan

import (
	"slices"
)

// Shares returns how many ranks run each program.
func Shares(programs []Program) []int {
	out := make([]int, len(programs))
	for i, p := range programs {
		out[i] = p.Ranks
	}
	return out
}

// ProgramsFor returns the programs that a host's ranks run, and the ranks with their index into
// them. ranks are in ascending order; local means that the host is this machine. It is pure.
func ProgramsFor(ranks []Rank, programs []Program, local bool) ([]Program, []Rank) {
	var needed []Program
	numbered := make([]Rank, 0, len(ranks))
	next := 0
	end := 0
	known := false // whether needed has the program of the current rank
	for _, r := range ranks {
		for r.Rank >= end {
			end += programs[next].Ranks
			next++
			known = false
		}
		if !known {
			needed = append(needed, RunOn(programs[next-1], local))
			known = true
		}
		r.Program = len(needed) - 1
		numbered = append(numbered, r)
	}
	return needed, numbered
}

// ProgramOf returns the program that a rank runs.
func ProgramOf(rank int, programs []Program) Program {
	i := 0
	for ; rank >= programs[i].Ranks; i++ {
		rank -= programs[i].Ranks
	}
	return programs[i]
}

// RunOn returns the program in its form for this machine, or for another.
func RunOn(p Program, local bool) Program {
	if local {
		p.Drop = slices.Concat(p.Drop, p.DropHere)
	}
	return p
}
