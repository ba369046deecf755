package algorithms

import (
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/flow"
)

// AllGather brings every member's part to all members. parts[i] is the memory for the part
// of member i, of the same length on all members; this one's own is filled already.
func (t *Team) AllGather(sign *flow.Sign, parts [][]byte) error {
	if t.choose(collective.AllGather, total(parts), 0) == Circulant {
		return t.gather(sign, func(i int) []byte { return parts[t.away(i)] })
	}
	if t.Size() == 1 {
		return nil
	}
	f := t.begin(sign, t.away(1), t.away(-1))
	lead(f, parts[t.me])
	for step := range t.Size() - 1 {
		relay(f, flow.Part{Into: parts[t.away(-1-step)]})
	}
	last(f)
	return t.run(f)
}

func total(parts [][]byte) int {
	sum := 0
	for _, p := range parts {
		sum += len(p)
	}
	return sum
}
