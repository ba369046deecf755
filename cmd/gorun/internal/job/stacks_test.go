package job

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/sight/stacks"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/session"
)

// readReports reads what host f1 says of ranks.
func readReports(said string, ranks ...int) ([]stacks.Rank, error) {
	r := newReports("f1", ranks)
	for piece := range slices.Chunk([]byte(said), 50<<10) {
		if err := r.add(piece); err != nil {
			return r.all, err
		}
	}
	return r.all, r.end()
}

// Of what a host says no more waits than one report, and of ranks other than 0 a small one.
func TestReportsTakeLittleMemory(t *testing.T) {
	ranks := []int{1, 2, 3, 4, 5, 6, 7, 8}
	r := newReports("f1", ranks)
	least := uint64(1 << 62)
	most := uint64(0)
	long := strings.Repeat("x", 512<<10)
	for _, rank := range ranks {
		must.OK(t, r.add(fmt.Appendf(nil, `{"rank":%d,"error":"%s"}`+"\n", rank, long)))
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		least = min(least, m.HeapAlloc)
		most = max(most, m.HeapAlloc)
	}
	check.Equal(t, len(r.all), len(ranks))
	check.That(t, most-least < 2<<20, "%d MiB are kept", (most-least)>>20)
	r.came = stacks.MaxReports
	check.Error(r.add([]byte("x"))).Says(t, "an answer of more than")
	many := strings.Repeat("{},", maxReport) + "{}"
	_, err := readReports(`{"rank":0,"nccl_ras":{"communicators":[{"ranks":[`+many+"]}]}}", 0)
	check.OK(t, err)
	_, err = readReports(`{"rank":0,"processes":[`+many+"]}", 0)
	check.Error(err).Says(t, "values")
}

// A host tells of the ranks that it was asked for, of each once, and what is beyond the bounds of a
// report takes no memory.
func TestReportsOfAHostAreBounded(t *testing.T) {
	const own = `{"rank":3}` + "\n"
	for name, tc := range map[string]struct{ out, want string }{
		"another's rank": {`{"rank":2}`, "reported rank 2, which was not requested"},
		"a rank twice":   {own + own, "reported rank 3, which was not requested or was reported before"},
		"no report":      {"[]", "read what the host says"},
		"many values":    {`{"rank":3,"processes":[` + strings.Repeat("{},", maxReport/2) + "{}]}", "values"},
		"a long report":  {own + strings.Repeat("x", stacks.MaxReport+1), "a report of more than"},
	} {
		_, err := readReports(tc.out, 3)
		check.That(t, err != nil && strings.Contains(err.Error(), tc.want), "%s: %v", name, err)
	}
	large := `{"rank":3,"host":"f2","processes":[` + strings.Repeat("{},", 1<<15) + `{}],` +
		`"record":{"comms":[` + strings.Repeat("{},", 1<<15) + "{}]}}"
	all, err := readReports(large, 3, 4)
	check.OK(t, err)
	check.Equal(t, len(all), 1)
	r := all[0]
	check.Equal(t, r.Host, "f1")
	check.That(t, cap(r.Processes) < 2*stacks.MaxProcesses && cap(r.Record.Comms) < 64,
		"%d processes, %d communicators", cap(r.Processes), cap(r.Record.Comms))
}

// A host that says nothing of its ranks, or of others, tells of no progress: the job hangs where
// the others wait for it.
func TestSilentHostsMakeNoProgress(t *testing.T) {
	id := session.Identity{Index: 1, Host: &plan.Host{Ranks: []plan.Rank{{Rank: 2}, {Rank: 3}}}}
	for name, tc := range map[string]struct{ out, want string }{
		"another's rank": {`{"rank":0,"calls":7}`, "spoke for rank 0"},
		"a rank twice":   {"{\"rank\":2}\n{\"rank\":2}", "twice of rank 2"},
		"no pulse":       {"[]", "read whether its ranks make progress"},
	} {
		_, err := readPulses([]byte(tc.out), id)
		check.Error(err).Says(t, tc.want, name)
	}
	told, err := readPulses([]byte("{\"rank\":2,\"calls\":7}\n{\"rank\":3,\"cpu\":5}\n"), id)
	check.OK(t, err)
	check.Slice(t, told, []stacks.Pulse{{Rank: 2, Calls: 7}, {Rank: 3, CPU: 5}})
	check.Slice(t, orIdle(told, id), told)
	w := stacks.Watch{Limit: time.Minute}
	began := time.Now()
	var at []int
	for minute := range 3 {
		all := append(orIdle(nil, id), stacks.Pulse{Rank: 0, Waits: true}, stacks.Pulse{Rank: 1, Waits: true})
		if w.Sample(began.Add(time.Duration(minute)*time.Minute), all, began) {
			at = append(at, minute)
		}
	}
	check.Slice(t, at, []int{1})
	id.Now = func() (epoch, rank int) { return 1, 0 } // of an elastic job, where another process had rank 2 too
	told, err = readPulses([]byte(`{"rank":2,"calls":7}`), id)
	check.OK(t, err)
	check.Slice(t, told, []stacks.Pulse{{Rank: 1, Calls: 7}})
}
