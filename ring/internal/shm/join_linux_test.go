package shm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// joined is one rank's result of Join.
type joined struct {
	domains [][]int
	err     error
	sum     string // the result of sum
	rank    int    // in the group
}

// joinAll joins ranks that are goroutines, each with an Exchange of its own making.
func joinAll(size int, willing func(rank int) bool, change func(rank int, e Exchange) Exchange) []joined {
	m := newMeeting(size)
	got := make([]joined, size)
	var wg, done sync.WaitGroup
	done.Add(size)
	for rank := range size {
		wg.Go(func() {
			var broken atomic.Bool
			g, domains, err := Join(rank, size, willing(rank), change(rank, m.exchange(rank)), kernel.Set{}, &broken)
			got[rank] = joined{domains: domains, err: err, rank: None}
			if g != nil {
				got[rank].rank = g.rank
			}
			got[rank].sum = sum(g, rank)
			done.Done()
			done.Wait()
			if g != nil {
				_ = g.Close()
			}
		})
	}
	wg.Wait()
	return got
}

// sum adds 1<<rank over a group, and returns the ranks in it.
func sum(g *Group, rank int) string {
	if g == nil {
		return "alone"
	}
	word := uint64(1) << rank
	if err := g.AllReduce(9, kernel.U64, kernel.Sum, unsafe.Pointer(&word), unsafe.Pointer(&word), 1, 1); err != nil {
		return err.Error()
	}
	return members(word)
}

func members(word uint64) string {
	var who []int
	for q := range 64 {
		if word>>q&1 == 1 {
			who = append(who, q)
		}
	}
	return fmt.Sprint(who)
}

func always(int) bool { return true }

func unchanged(_ int, e Exchange) Exchange { return e }

// agree fails unless all ranks but liar have the domains, and are in groups of exactly those
// ranks.
func agree(t *testing.T, what string, got []joined, liar int, want [][]int) {
	t.Helper()
	for q, j := range got {
		if q == liar {
			continue
		}
		if j.err != nil || !reflect.DeepEqual(j.domains, want) {
			t.Errorf("%s: rank %d has domains %v, err %v; want %v", what, q, j.domains, j.err, want)
			continue
		}
		domain, place := domainOf(want, q)
		if len(domain) == 1 && j.sum != "alone" || len(domain) > 1 && (j.sum != fmt.Sprint(domain) || j.rank != place) {
			t.Errorf("%s: rank %d of %v is rank %d in %s", what, q, want, j.rank, j.sum)
		}
	}
}

func TestUnwillingRankIsAlone(t *testing.T) {
	for _, tt := range []struct {
		unwilling []int
		want      [][]int
	}{
		{nil, [][]int{{0, 1, 2, 3}}},
		{[]int{0}, [][]int{{0}, {1, 2, 3}}},
		{[]int{1}, [][]int{{0, 2, 3}, {1}}},
		{[]int{0, 3}, [][]int{{0}, {1, 2}, {3}}},
		{[]int{0, 1, 2}, [][]int{{0}, {1}, {2}, {3}}},
		{[]int{0, 1, 2, 3}, [][]int{{0}, {1}, {2}, {3}}},
	} {
		got := joinAll(4, func(rank int) bool { return !slices.Contains(tt.unwilling, rank) }, unchanged)
		agree(t, fmt.Sprintf("not willing %v", tt.unwilling), got, None, tt.want)
	}
}

// replace makes one rank send a false value in one exchange.
func replace(liar int, in string, lie []byte) func(int, Exchange) Exchange {
	return func(rank int, e Exchange) Exchange {
		return func(name string, value []byte) ([][]byte, error) {
			if rank == liar && name == in {
				value = lie
			}
			return e(name, value)
		}
	}
}

// False offers share no memory and harm no other rank. R15 of the fault matrix.
func TestFalseOffersAreRefused(t *testing.T) {
	one := [][]int{{0}, {1, 2}}
	all := [][]int{{0, 1, 2}}
	none := [][]int{{0}, {1}, {2}}
	fifo := filepath.Join(t.TempDir(), "fifo")
	must.OK(t, unix.Mkfifo(fifo, 0o600))
	pipe, err := os.OpenFile(fifo, os.O_RDWR, 0)
	must.OK(t, err)
	defer pipe.Close()
	nonce := `"Nonce":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="`
	offer := func(pid, fd int) string {
		return fmt.Sprintf(`{"Boot":%q,"PID":%d,"FD":%d,%s}`, bootID(), pid, fd, nonce)
	}
	loose := looseMemory(t, probeSize, false)
	zero := sealedZeroes(t, probeSize)
	_, err = openMemory([]byte(offer(procPID(), zero)), probeSize)
	must.OK(t, err, "the offers of this test are invalid")
	foreign := -1
	if os.Getuid() == 0 { // otherwise no memory of another user can be made
		foreign = sealedZeroes(t, probeSize)
		must.OK(t, unix.Fchown(foreign, 65533, 65533))
	}
	for _, text := range []string{
		"", "{", "null", "[]", `{"PID":"x"}`, strings.Repeat("9", 5000), strings.Repeat("[", 900),
		offer(-1, 3), offer(0, 3), offer(1, math.MaxInt), offer(procPID(), -1), offer(999_999_999, 3),
		offer(procPID(), 0), offer(procPID(), foreign),
		offer(procPID(), int(pipe.Fd())), offer(procPID(), loose),
		offer(procPID(), looseMemory(t, probeSize, true)), offer(procPID(), sealedZeroes(t, 2*probeSize)),
		strings.Replace(offer(procPID(), zero), "AAAA", "AAAB", 1),
		strings.Replace(offer(procPID(), zero), nonce, `"Nonce":""`, 1),
		strings.Replace(offer(procPID(), zero), bootID(), "elsewhere", 1),
	} {
		what := fmt.Sprintf("%.80q", text)
		// Rank 0 leads itself, but no rank follows.
		agree(t, "offer "+what, joinAll(3, always, replace(0, "offer", []byte(text))), 0, one)
		// No rank gets the segment.
		agree(t, "memory "+what, joinAll(3, always, replace(0, "memory", []byte(text))), 0, none)
		// Only the leader's value counts.
		agree(t, "memory of another "+what, joinAll(3, always, replace(1, "memory", []byte(text))), None, all)
	}
	for text, want := range map[string][][]int{
		"": {{0, 2}, {1}}, "x": {{0, 2}, {1}}, "-1": {{0, 2}, {1}}, "-5": {{0, 2}, {1}}, "3": {{0, 2}, {1}},
		"2": {{0, 2}, {1}},
		"1": {{0, 2}, {1}}, "99999999999999999999": {{0, 2}, {1}}, "0": all,
	} {
		agree(t, "leader "+text, joinAll(3, always, replace(1, "leader", []byte(text))), 1, want)
	}
	for _, text := range []string{"", "\x00", "\x02", "\x01\x01"} {
		agree(t, fmt.Sprintf("have %q", text), joinAll(3, always, replace(2, "have", []byte(text))), 2, none)
	}
}

// looseMemory returns a memfd that can shrink, or that is not fully allocated.
func looseMemory(t *testing.T, size int, sealed bool) (fd int) {
	fd, err := unix.MemfdCreate(memfdName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	must.OK(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	err = unix.Ftruncate(fd, int64(size))
	if !sealed {
		err = errors.Join(err, unix.Fallocate(fd, 0, 0, int64(size)))
	} else {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, noShrink)
	}
	must.OK(t, err)
	return fd
}

// sealedZeroes returns a memfd that is valid to map if its nonce is offered.
func sealedZeroes(t *testing.T, size int) (fd int) {
	fd = looseMemory(t, size, false)
	must.Get(unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, noShrink))(t)
	return fd
}

// A rank whose Exchange fails returns its error, and leaks nothing.
func TestExchangeFails(t *testing.T) {
	before := held(t)
	cause := errors.New("the agent is gone")
	for _, name := range []string{"offer", "leader", "memory", "have"} {
		for what, fail := range map[string]func([][]byte) ([][]byte, error){
			"error":     func([][]byte) ([][]byte, error) { return nil, cause },
			"too few":   func(v [][]byte) ([][]byte, error) { return v[:2], nil },
			"too many":  func(v [][]byte) ([][]byte, error) { return append(slices.Clip(v), nil), nil },
			"no answer": func([][]byte) ([][]byte, error) { return nil, nil },
		} {
			for rank, j := range joinAll(3, always, func(_ int, e Exchange) Exchange {
				return func(n string, value []byte) ([][]byte, error) {
					values, err := e(n, value)
					if n == name && err == nil {
						return fail(values)
					}
					return values, err
				}
			}) {
				check.That(t, j.err != nil && (what != "error" || errors.Is(j.err, cause)) &&
					strings.Contains(j.err.Error(), name) && j.sum == "alone",
					"%s in %q: rank %d has err %v, group %s", what, name, rank, j.err, j.sum)
			}
		}
	}
	after := held(t)
	check.That(t, after == before, "%d files and mappings are left of %d", after, before)
}

// held counts this process's open and mapped memfds.
func held(t *testing.T) int {
	t.Helper()
	maps := must.Get(os.ReadFile("/proc/self/maps"))(t)
	n := strings.Count(string(maps), memfdName)
	fds := must.Get(os.ReadDir("/proc/self/fd"))(t)
	for _, fd := range fds {
		if name, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.Contains(name, memfdName) {
			n++
		}
	}
	return n
}

// checkProcesses has processes join, and compares what they print.
func checkProcesses(t *testing.T, want [][]int, wrappers ...[]string) {
	t.Helper()
	size := 0
	for _, d := range want {
		size += len(d)
	}
	ranks := startRanks(t, size, "join", wrappers...)
	for q, p := range ranks {
		domain, _ := domainOf(want, q)
		expect := fmt.Sprint(want, domain)
		if len(domain) == 1 {
			expect = fmt.Sprint(want, " alone")
		}
		line, err := p.Line()
		check.That(t, err == nil && line == expect, "rank %d says %q, %v; want %q", q, line, err, expect)
	}
	for q, p := range ranks {
		check.OK(t, p.Wait(), "rank", q)
	}
}

// Processes share memory, also as children of a command. Those in different PID namespaces share
// nothing, even if their PIDs are equal, unless they see each other in one /proc.
func TestProcessesJoin(t *testing.T) {
	checkProcesses(t, [][]int{{0, 1, 2}})
	unshare := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		lab.Skip(t, fmt.Sprintf("needs the right to make process namespaces: %v %s", err, out))
	}
	checkProcesses(t, [][]int{{0, 2}, {1}, {3}}, nil, unshare, nil, unshare)
	checkProcesses(t, [][]int{{0, 1, 2}}, nil, unshare[:4], unshare[:4])
}
