// Package simulate runs simulated jobs on virtual clocks. A seed determines each run.
package simulate

import (
	"container/heap"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Clock runs functions at their times. Of two at one time the older runs first.
type Clock struct {
	Now   time.Duration
	Tell  bool // keep the log
	Log   []string
	Fault error // the first promise that was broken

	queue moments
	count int
}

// At runs do at time t.
func (c *Clock) At(t time.Duration, do func()) {
	c.count++
	heap.Push(&c.queue, moment{t, c.count, do})
}

// After runs do when wait has passed.
func (c *Clock) After(wait time.Duration, do func()) { c.At(c.Now+wait, do) }

// Next runs the next function, and reports whether there was one.
func (c *Clock) Next() bool {
	if len(c.queue) == 0 {
		return false
	}
	m := heap.Pop(&c.queue).(moment)
	c.Now = m.at
	m.do()
	return true
}

// Note adds a line to the log.
func (c *Clock) Note(format string, args ...any) {
	if c.Tell {
		c.Log = append(c.Log, fmt.Sprintf("%11v ", c.Now)+fmt.Sprintf(format, args...))
	}
}

// Broken records a broken promise.
func (c *Clock) Broken(format string, args ...any) {
	if c.Fault == nil {
		c.Fault = fmt.Errorf("at %v: "+format, append([]any{c.Now}, args...)...)
	}
}

type moment struct {
	at    time.Duration
	count int
	do    func()
}

type moments []moment

func (q moments) Len() int { return len(q) }
func (q moments) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].count < q[j].count
}
func (q moments) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *moments) Push(m any)   { *q = append(*q, m.(moment)) }
func (q *moments) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// Seeds plays jobs 0 to n-1, of which play returns the exit code and the clock. SIMULATE_N and
// SIMULATE_FROM choose other seeds; SIMULATE_SEED plays one job and prints its log. Each of codes
// must be the end of some job, because a simulation that never sees an end of a kind tests less
// than it says.
func Seeds(t *testing.T, n uint64, codes []int, play func(seed uint64, tell bool) (code int, c *Clock)) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if os.Getenv("SIMULATE_SEED") != "" {
		seed := fromEnv(t, "SIMULATE_SEED", 0)
		code, c := play(seed, true)
		t.Logf("seed %d:\n%s\ncode %d, fault: %v", seed, strings.Join(c.Log, "\n"), code, c.Fault)
		if c.Fault != nil {
			t.Fail()
		}
		return
	}
	seeds := fromEnv(t, "SIMULATE_N", n)
	from := fromEnv(t, "SIMULATE_FROM", 0)
	const workers = 4
	ends := map[int]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for worker := range uint64(workers) {
		wg.Go(func() {
			for seed := from + worker; seed < from+seeds && !t.Failed(); seed += workers {
				code, c := play(seed, false)
				mu.Lock()
				ends[code]++
				mu.Unlock()
				if c.Fault != nil {
					t.Errorf("%v\nSee its log: SIMULATE_SEED=%d go test -v -run '^%s$'", c.Fault, seed, t.Name())
				}
			}
		})
	}
	wg.Wait()
	for _, code := range codes {
		if ends[code] == 0 && seeds >= n {
			t.Errorf("no job ended with %d: %v", code, ends)
		}
	}
	t.Logf("%d jobs, %d different codes, %d of them 0", seeds, len(ends), ends[0])
}

// Repeatable checks that jobs of one seed have the same log.
func Repeatable(t *testing.T, seeds uint64, play func(seed uint64, tell bool) (code int, c *Clock)) {
	t.Helper()
	for seed := range seeds {
		_, one := play(seed, true)
		_, two := play(seed, true)
		for i := range max(len(one.Log), len(two.Log)) {
			if i >= len(one.Log) || i >= len(two.Log) || one.Log[i] != two.Log[i] {
				t.Fatalf("seed %d: two runs differ from line %d on:\n%.200q\n%.200q", seed, i, one.Log[i:], two.Log[i:])
			}
		}
	}
}

// fromEnv returns the number in an environment variable, or usually if it is unset.
func fromEnv(t *testing.T, name string, usually uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return usually
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
