package probe

import (
	"fmt"
	"strconv"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gorun/gorun/internal/doctor"
	"github.com/gorun/gorun/internal/test/check"
)

// What runs below an agent of the job is not busy, whatever other processes call themselves.
func TestBusyProcessesAreOutsideTheJob(t *testing.T) {
	root := fstest.MapFS{}
	at := func(seconds int, cpu int64) usage {
		for pid, parent := range map[int]int{1: 0, 10: 1, 11: 10, 12: 11, 20: 1, 30: 31, 31: 30} {
			dir := "proc/" + strconv.Itoa(pid) + "/"
			stat := fmt.Sprintf("%d (a) b) R %d 0 0 0 0 0 0 0 0 0 %d 0 0 0 0 0 0 0 %d", pid, parent, cpu, 100+pid)
			root[dir+"stat"] = &fstest.MapFile{Data: []byte(stat)}
			root[dir+"comm"] = &fstest.MapFile{Data: []byte("name\n")}
			root[dir+"cmdline"] = &fstest.MapFile{Data: []byte("python3\x00__main__.py\x00")}
		}
		u := used(root)
		u.at = time.Unix(int64(seconds), 0)
		return u
	}
	before := at(0, 0)
	after := at(1, ticks)
	all := []int{1, 10, 11, 12, 20, 30, 31}[:doctor.MaxBusy]
	for name, tc := range map[string]struct {
		agents []doctor.Process
		busy   []int
	}{
		"no agent":                 {nil, all},
		"an agent":                 {[]doctor.Process{{PID: 10, Started: 110}}, []int{1, 20, 30, 31}},
		"of another container":     {[]doctor.Process{{PID: 10, Started: 111}}, all},
		"who says that it is init": {[]doctor.Process{{PID: 1, Started: 101}}, all},
	} {
		var busy []int
		_, found := compare(root, before, after, tc.agents)
		for _, p := range found {
			busy = append(busy, p.PID)
		}
		check.Slice(t, busy, tc.busy, name)
	}
}
