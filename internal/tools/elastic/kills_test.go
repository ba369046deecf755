package main

import (
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestPlanOfAKill(t *testing.T) {
	for _, row := range []struct{ fault, point, plan string }{
		{"kill", "forward", "await5:2:0,forward:7:2:kill"},
		{"segv", "random", "await5:2:0,random30:7:2:segv"},
		{"cut", "agreed", "await6:2:0,agreed:7:2:host"},
		{"lost", "receiver", "await6:2:0,forward:7:2,receiver:later:any:host"},
	} {
		k := kill{
			fault: row.fault,
			point: row.point,
			step:  7,
			rank:  2,
			delay: 30,
		}
		check.Equal(t, k.plan(), row.plan, k)
	}
}

// Fifty seeds have every fault at every point.
func TestDrawnKills(t *testing.T) {
	drawn := map[string]bool{}
	for seed := range uint64(50) {
		k := drawKill(seed + 1)
		drawn[k.fault] = true
		drawn[k.point] = true
		drawn[k.program] = true
		check.That(t, k == drawKill(seed+1) && k.step > 2 && k.step < killSteps, "%v", k)
	}
	check.Equal(t, len(drawn), 14, drawn)
}
