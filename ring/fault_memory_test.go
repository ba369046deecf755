package ring_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

func elements(b ring.Buffer) []float32 { return unsafe.Slice((*float32)(b.Ptr), b.Len) }

// rooms are ways to place a vector near a guard, some of them where no float32 belongs.
func rooms(t testing.TB) map[string]func(n int) []float32 {
	place := func(offset func(spare int) int) func(n int) []float32 {
		return func(n int) []float32 {
			memory := lab.Fenced(t, 4*n+8)
			begin := unsafe.Add(unsafe.Pointer(&memory[0]), offset(len(memory)-4*n))
			return unsafe.Slice((*float32)(begin), n)
		}
	}
	return map[string]func(n int) []float32{
		"begins at a guard": place(func(int) int { return 0 }),
		"ends at a guard":   place(func(spare int) int { return spare }),
		"one byte in":       place(func(int) int { return 1 }),
		"a byte before":     place(func(spare int) int { return spare - 1 }),
		"three bytes in":    place(func(int) int { return 3 }),
	}
}

// A touch beside the buffers would end the test program.
// It is row R7 of the fault matrix.
func TestBuffersAtGuardPagesAndOddAddresses(t *testing.T) {
	must.HaveTime(t)
	onLayouts(t, func(t *testing.T, l layout) {
		t.Parallel()
		comms := l.join(t, l.job(t))
		for name, room := range rooms(t) {
			for _, n := range []int{1, 2, 3, 17, 4099, 30_001} {
				for _, f := range specs() {
					err := ringtest.Each(l.size, func(rank int) error {
						s := position{root: n % l.size, n: n}.at(comms[rank])
						w := f.fill(s, room)
						if err := comms[rank].Do(ctx, w); err != nil {
							return err
						}
						return f.check(s, w)
					})
					must.OK(t, err, f.name, "of", n, name)
				}
			}
		}
	})
}

// It is row R7 of the fault matrix.
func TestEmptyCalls(t *testing.T) {
	onLayouts(t, func(t *testing.T, l layout) {
		t.Parallel()
		comms := l.join(t, l.job(t))
		for _, f := range specs() {
			err := ringtest.Each(l.size, func(rank int) error {
				for _, s := range []position{{n: 0}, {n: 5}, {n: 0}} { // the next call must not be disturbed
					if err := f.once(comms[rank], s, synchronously); err != nil {
						return err
					}
				}
				w := f.fill(position{}.at(comms[rank]), heap)
				w.Dst = ring.Buffer{}
				w.Src = ring.Buffer{}
				return comms[rank].Do(ctx, w)
			})
			must.OK(t, err, f.name)
		}
	})
}

// Overlapping buffers are refused on every rank before anything moves.
// It is row R7 of the fault matrix.
func TestOverlapIsRefused(t *testing.T) {
	onLayouts(t, func(t *testing.T, l layout) {
		t.Parallel()
		comms := l.join(t, l.job(t))
		for _, f := range specs() {
			err := ringtest.Each(l.size, func(rank int) error {
				c := comms[rank]
				s := position{n: 64}.at(c)
				w := f.fill(s, heap)
				if w.Dst.Len == 0 || w.Src.Len == 0 {
					return nil
				}
				memory := make([]float32, w.Dst.Len+w.Src.Len)
				for _, apart := range []int{1, w.Src.Len - 1} {
					w.Src.Ptr = unsafe.Pointer(&memory[0])
					w.Dst.Ptr = unsafe.Pointer(&memory[apart])
					if err := c.Do(ctx, w); err == nil || !strings.Contains(err.Error(), "overlap") {
						return fmt.Errorf("src and dst %d elements apart: %v", apart, err)
					}
					if h, err := c.Start(w); err == nil || !h.Done() {
						return fmt.Errorf("src and dst %d elements apart were started", apart)
					}
				}
				return nil
			})
			if err == nil {
				err = ringtest.Each(l.size, func(rank int) error { return ring.Barrier(ctx, comms[rank]) })
			}
			must.OK(t, err, f.name)
		}
	})
}

// R14: ranks share memory where /dev/shm has no room: theirs is not in a file there.
func TestFullDevShm(t *testing.T) {
	full := []string{"unshare", "--mount", "sh", "-c",
		`mount -t tmpfs -o size=64k none /dev/shm && { head -c 1000000 /dev/zero >/dev/shm/full 2>&-; exec "$@"; }`,
		"sh"}
	if out, err := exec.Command(full[0], append(full[1:], "true")...).CombinedOutput(); err != nil {
		lab.Skip(t, "no mount namespaces here: "+string(out))
	}
	l := over("shm", 2)
	d := l.job(t)
	var ranks []*lab.Program
	for rank := range l.size {
		ranks = append(ranks, lab.StartRole(t, exec.Command(full[0], append(full[1:], os.Args[0])...),
			duty{Form: "allreduce", N: 300_000}.role(t), l.environ(d, rank)...))
	}
	allRunning(t, ranks)
}

// R22: rank 1 makes the calls of which others are made, and says lengths that are no lengths. Rank
// 0 gets an error: it takes no memory for them, and reckons nothing from them.
func TestImpossibleLengthsAreRefused(t *testing.T) {
	state := func() ring.State { v := map[string]int{}; return ring.ValueState(&v) }
	splitting := func(c *ring.Comm) error { _, err := ring.Split(ctx, c, 0, 0); return err }
	saying := func(n int64) func(c *ring.Comm) error {
		return func(c *ring.Comm) error {
			all := make([]int64, 2*c.Size())
			return errors.Join(ring.AllGather(ctx, c, all, []int64{0, 0}), ring.AllGather(ctx, c, all, []int64{0, n}))
		}
	}
	syncing := func(c *ring.Comm) error { return state().Sync(ctx, c, 1) }
	rooted := func(n int64) func(c *ring.Comm) error {
		return func(c *ring.Comm) error { return ring.Broadcast(ctx, c, []int64{n}, 1) }
	}
	gathering := func(elements int) func(c *ring.Comm) error {
		return func(c *ring.Comm) error {
			q, err := ring.NewQueue(ctx, c)
			if err != nil {
				return err
			}
			defer q.Close()
			ticket, err := q.SubmitV("x", ring.Collective{Kind: ring.KindAllGather, Type: ring.Float64,
				Src: few(elements)}, func(counts []int) ring.Buffer {
				n := 0
				for _, more := range counts {
					n += more
				}
				return ring.BufferOf(make([]float64, n))
			})
			if err != nil {
				return err
			}
			return ticket.Wait(ctx)
		}
	}
	for _, tt := range []struct {
		name          string
		honest, lying func(c *ring.Comm) error
		says          string
	}{
		{name: "split, negative", honest: splitting, lying: saying(-1),
			says: "rank 1 on testhost says that it tells -1 bytes"},
		{name: "split, more than there can be", honest: splitting, lying: saying(math.MaxInt64),
			says: "that it tells 9223372036854775807 bytes"},
		{name: "state, negative", honest: syncing, lying: rooted(-1),
			says: "rank 1 on testhost says that its state has -1 bytes"},
		{name: "state, more than there can be", honest: syncing, lying: rooted(math.MaxInt64), says: "rank 1"},
		{name: "gathered, more than there is", honest: gathering(3), lying: gathering(1 << 39),
			says: "549755813888 of them from rank 1, which is more than this machine's memory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := over("tcp", 2)
			comms := l.join(t, l.job(t))
			ringtest.All(t, 2, func(rank int) error {
				if rank == 1 {
					_ = tt.lying(comms[1])
					return comms[1].Close()
				}
				err := tt.honest(comms[0])
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					return fmt.Errorf("it ends with %v, want %q", err, tt.says)
				}
				return nil
			})
		})
	}
}

// few claims to have n elements and has one.
func few(elements int) ring.Buffer {
	return ring.Buffer{Ptr: unsafe.Pointer(new(float64)), Len: elements}
}
