package meter

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/files"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// machine writes files below a root. A process is "PARENT SESSION TICKS CHILDREN THREADS PAGES", in
// /proc/PID/stat.
func machine(t *testing.T, texts map[string]string) *Meter {
	t.Helper()
	m := New(files.Make(t, texts))
	m.page = 4096
	return m
}

func stat(pid, parent, session, user, children, threads, pages int, state string) string {
	return fmt.Sprintf("%d (a ) R 1 2) %s %d 1 %d 0 -1 0 0 0 0 0 %d 0 %d 0 20 0 %d 0 777 99999 %d 0 0\n", pid, state,
		parent, session, user, children, threads, pages)
}

func TestDescendantsCountForTheirRank(t *testing.T) {
	m := machine(t, map[string]string{
		"proc/10/stat":  stat(10, 5, 10, 100, 50, 3, 2, "S"),
		"proc/10/wchan": "futex_wait_queue",
		"proc/10/io":    "rchar: 9\nread_bytes: 4096\nwrite_bytes: 100\n",
		"proc/11/stat":  stat(11, 10, 10, 7, 0, 1, 1, "R"),   // a child
		"proc/12/stat":  stat(12, 11, 12, 3, 0, 1, 1, "S"),   // a grandchild with a session of its own
		"proc/13/stat":  stat(13, 1, 10, 40, 0, 1, 1, "S"),   // an orphan
		"proc/14/stat":  stat(14, 10, 10, 5, 0, 1, 100, "Z"), // a zombie
		"proc/20/stat":  stat(20, 5, 20, 1, 0, 1, 5, "D"),
		"proc/30/stat":  stat(30, 1, 30, 9, 0, 1, 9, "R"), // a stranger
		"proc/31/stat":  "31 (broken",
		"proc/version":  "",
	})
	got := map[int]wire.RankUse{}
	for _, u := range m.Ranks(map[int]int{4: 10, 5: 20, 6: 99}) {
		got[u.Rank] = u
	}
	want := map[int]wire.RankUse{
		4: {Rank: 4, PID: 10, State: "S", Waits: "futex_wait_queue", Processes: 4, Threads: 6,
			CPU: 2050 * time.Millisecond, Memory: 5 * 4096, Read: 4096, Written: 100},
		5: {Rank: 5, PID: 20, State: "D", Processes: 1, Threads: 1, CPU: 10 * time.Millisecond, Memory: 5 * 4096},
	}
	check.That(t, reflect.DeepEqual(got, want), "got  %+v\nwant %+v", got, want)
	// A process that has left the session and then lost its parent is still known.
	must.OK(t, os.WriteFile(filepath.Join(m.root, "proc/12/stat"), []byte(stat(12, 1, 12, 3, 0, 1, 1, "S")), 0o600))
	for _, u := range m.Ranks(map[int]int{4: 10}) {
		check.That(t, u.Processes == 4, "%d processes", u.Processes)
	}
}

// Processes of no rank are read once in a while: one of a rank may get the pid of another that
// ended.
func TestStrangersAreReadSeldom(t *testing.T) {
	m := machine(t, map[string]string{"proc/10/stat": stat(10, 5, 10, 1, 0, 1, 1, "S"),
		"proc/30/stat": stat(30, 1, 30, 1, 0, 1, 1, "S")})
	processes := func() int { return m.Ranks(map[int]int{4: 10})[0].Processes }
	check.Equal(t, processes(), 1, "processes")
	must.OK(t, os.WriteFile(filepath.Join(m.root, "proc/30/stat"), []byte(stat(30, 10, 10, 1, 0, 1, 1, "S")), 0o600))
	for i := 2; i <= forgetAfter; i++ {
		check.Equal(t, processes(), 1, "processes in reading", i)
	}
	check.Equal(t, processes(), 2, "processes")
	if use := m.Ranks(map[int]int{4: 30}); len(use) != 1 { // a rank is never left out
		t.Errorf("%+v", use)
	}
}

func TestHost(t *testing.T) {
	texts := map[string]string{
		"proc/stat":    "cpu  100 10 50 900 70 5 5 30 60 0\ncpu0 1\ncpu1 1\nintr 5\n",
		"proc/meminfo": "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n",
		"proc/diskstats": "8 0 sda 1 0 10 0 1 0 20 0 0 0 0\n8 1 sda1 1 0 10 0 1 0 20 0 0 0 0\n7 0 loop0 1 " +
			"0 99 0 1 0 99 0 0 0 0\n",
		"sys/block/sda/device/x": "",
		"proc/net/dev": "Inter-|   Receive\n face |bytes\n    lo: 5 0 0 0 0 0 0 0 5 0\n  eth0: 100 0 0 " +
			"0 0 0 0 0 200 0\n   br0: 100 0 0 0 0 0 0 0 200 0\n",
		"sys/class/net/eth0/device": "",
	}
	want := wire.HostUse{
		CPUs:      2,
		Busy:      2 * time.Second,
		Memory:    1000 << 10,
		Available: 400 << 10,
		Read:      5120,
		Written:   10240,
		Received:  100,
		Sent:      200,
	}
	got := machine(t, texts).Host()
	check.That(t, reflect.DeepEqual(got, want), "got  %+v\nwant %+v", got, want)
	delete(texts, "sys/class/net/eth0/device") // as in a container
	got = machine(t, texts).Host()
	check.That(t, got.Received == 200 && got.Sent == 400, "%+v", got)
	got = machine(t, nil).Host()
	check.That(t, reflect.DeepEqual(got, wire.HostUse{}), "%+v of nothing", got)
}

// The real /proc has what the meter reads.
func TestThisMachine(t *testing.T) {
	ranks := map[int]int{3: lab.StartProcess(t, "sh", "-c", "echo; while :; do :; done")}
	m := New("/")
	for use := m.Ranks(ranks); ; use = m.Ranks(ranks) {
		if len(use) != 1 || use[0].Rank != 3 || use[0].Memory == 0 || use[0].Threads != 1 || use[0].State == "" {
			t.Fatalf("%+v", use)
		}
		if use[0].CPU > 0 {
			break
		}
	}
	h := m.Host()
	check.That(t, h.CPUs >= 1 && h.Memory != 0 && h.Busy != 0, "%+v", h)
}

func FuzzStat(f *testing.F) {
	f.Add(stat(1, 2, 3, 4, 5, 6, 7, "R"))
	f.Add("1 (x) R")
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := parseStat([]byte(text)); ok && (len(p.state) != 1 || strings.ContainsAny(p.state, " \n")) {
			t.Errorf("%+v", p)
		}
	})
}
