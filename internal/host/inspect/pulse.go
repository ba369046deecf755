package inspect

import (
	"os"
	"strconv"
	"time"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/sight/recorder"
	"github.com/gorun/gorun/internal/sight/stacks"
)

// tick is the unit of CPU times in /proc, which Linux fixes for programs.
const tick = 10 * time.Millisecond

// pulse returns whether the rank with the process pid makes progress.
func (h *host) pulse(rank, pid int) stacks.Pulse {
	p := stacks.Pulse{Rank: rank}
	own, err := contain.ReadProcess(pid)
	if err != nil {
		return p
	}
	for _, one := range h.family(own) {
		dir := "/proc/" + strconv.Itoa(one.PID)
		p.CPU += cpuTime(dir)
		reader, err := recorder.Open(one.PID)
		if err != nil {
			continue
		}
		if s, err := reader.Read(); err == nil {
			p.Add(&s)
		}
		reader.Close()
	}
	return p
}

// cpuTime returns the CPU time of a process, and of children that it has waited for.
func cpuTime(dir string) (used time.Duration) {
	stat, _ := os.ReadFile(dir + "/stat")
	_, fields := contain.StatFields(stat)
	if len(fields) < 15 {
		return 0
	}
	for _, field := range fields[11:15] {
		n, _ := strconv.ParseInt(string(field), 10, 64)
		used += time.Duration(n) * tick
	}
	return used
}
