package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/host/memory"
)

const gib = 1 << 30

// A rank that the agent has signalled is not out of memory, and one kill is one rank's.
func TestCoreBlamesMemoryOnce(t *testing.T) {
	config := defaultConfig(time.Second)
	config.memory = memory.Reading{Groups: []memory.Group{{Limit: gib}}}
	c := newCore(config, 0)
	now := &memory.Reading{Groups: []memory.Group{{Limit: gib, Kills: 1, Full: 1}}}
	c.step(eventRunning{[]int{0, 1, 2}, 2}, 0)
	var got string
	report := func(acts []action) {
		for _, a := range acts {
			if r, ok := a.(actReport); ok {
				got += fmt.Sprintf("%d:%s ", r.exit.Rank, r.exit.OutOfMemory)
			}
		}
	}
	report(c.step(eventExited{rank: 0, signal: 9, memory: now}, 1))
	report(c.step(eventExited{rank: 1, signal: 9, memory: now}, 2))
	c.step(eventStop{0}, 3)
	report(c.step(eventExited{rank: 2, signal: 9,
		memory: &memory.Reading{Groups: []memory.Group{{Limit: gib, Kills: 9, Full: 9}}}}, 4))
	if want := "0:cgroup 1: 2: "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
