package plan

import (
	"cmp"
	"slices"
)

// Tool is how one rank starts otherwise than by its program's words.
type Tool struct {
	Rank int
	Argv []string // a command that starts the program, with the program's words; none: the program itself
	// Terminal is the kind (TERM) of the rank's own terminal; "": it has pipes. Whoever asks its
	// session connects with it.
	Terminal string
	Halt     bool // it is stopped before its first instruction, for a debugger
}

// ToolsOf returns those of tools, which are in the order of their ranks, that are for a host's
// ranks. It is pure.
func (h *Host) ToolsOf(tools []Tool) (here []Tool) {
	for _, r := range h.Ranks {
		if i, found := slices.BinarySearchFunc(tools, r.Rank, func(t Tool, rank int) int {
			return cmp.Compare(t.Rank, rank)
		}); found {
			here = append(here, tools[i])
		}
	}
	return here
}
