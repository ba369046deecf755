package ring_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

func elements(b ring.Buffer) []float32 { return unsafe.Slice((*float32)(b.Ptr), b.Len) }

// fenced is memory between two pages that nobody may touch.
type fenced struct {
	t    testing.TB
	page int
}

// maps returns whole pages of at least n bytes, which begin and end at a guard.
func (m fenced) maps(n int) []byte {
	length := (n + m.page - 1) / m.page * m.page
	all, err := unix.Mmap(-1, 0, length+2*m.page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { unix.Munmap(all) })
	for _, guard := range [][]byte{all[:m.page], all[m.page+length:]} {
		if err := unix.Mprotect(guard, unix.PROT_NONE); err != nil {
			m.t.Fatal(err)
		}
	}
	return all[m.page : m.page+length]
}

// rooms are ways to place a vector near a guard, some of them where no float32 belongs.
func (m fenced) rooms() map[string]func(n int) []float32 {
	place := func(offset func(spare int) int) func(n int) []float32 {
		return func(n int) []float32 {
			memory := m.maps(4*n + 8)
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
func TestR7BuffersAtGuardsAndOddAddresses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	onGrounds(t, func(t *testing.T, g ground) {
		t.Parallel()
		comms := g.join(t, g.door(t))
		for name, room := range (fenced{t, os.Getpagesize()}).rooms() {
			for _, n := range []int{1, 2, 3, 17, 4099, 30_001} {
				for _, f := range forms() {
					err := ringtest.Each(g.size, func(rank int) error {
						s := seat{root: n % g.size, n: n}.at(comms[rank])
						w := f.fill(s, room)
						if err := comms[rank].Do(ctx, w); err != nil {
							return err
						}
						return f.check(s, w)
					})
					if err != nil {
						t.Fatalf("%s of %d, %s: %v", f.name, n, name, err)
					}
				}
			}
		}
	})
}

func TestR7EmptyCalls(t *testing.T) {
	onGrounds(t, func(t *testing.T, g ground) {
		t.Parallel()
		comms := g.join(t, g.door(t))
		for _, f := range forms() {
			err := ringtest.Each(g.size, func(rank int) error {
				for _, s := range []seat{{n: 0}, {n: 5}, {n: 0}} { // the next call must not be disturbed
					if err := f.once(comms[rank], s, plainly); err != nil {
						return err
					}
				}
				w := f.fill(seat{}.at(comms[rank]), heap)
				w.Dst, w.Src = ring.Buffer{}, ring.Buffer{}
				return comms[rank].Do(ctx, w)
			})
			if err != nil {
				t.Fatalf("%s: %v", f.name, err)
			}
		}
	})
}

// Overlapping buffers are refused on every rank before anything moves.
func TestR7OverlapIsRefused(t *testing.T) {
	onGrounds(t, func(t *testing.T, g ground) {
		t.Parallel()
		comms := g.join(t, g.door(t))
		for _, f := range forms() {
			err := ringtest.Each(g.size, func(rank int) error {
				c := comms[rank]
				s := seat{n: 64}.at(c)
				w := f.fill(s, heap)
				if w.Dst.Len == 0 || w.Src.Len == 0 {
					return nil
				}
				memory := make([]float32, w.Dst.Len+w.Src.Len)
				for _, apart := range []int{1, w.Src.Len - 1} {
					w.Src.Ptr, w.Dst.Ptr = unsafe.Pointer(&memory[0]), unsafe.Pointer(&memory[apart])
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
				err = ringtest.Each(g.size, func(rank int) error { return ring.Barrier(ctx, comms[rank]) })
			}
			if err != nil {
				t.Fatalf("%s: %v", f.name, err)
			}
		}
	})
}

// R14: ranks share memory where /dev/shm has no room: theirs is not in a file there.
func TestR14NoRoomInDevShm(t *testing.T) {
	full := []string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs -o size=64k none /dev/shm && { head -c 1000000 /dev/zero >/dev/shm/full 2>&-; exec "$@"; }`, "sh"}
	if out, err := exec.Command(full[0], append(full[1:], "true")...).CombinedOutput(); err != nil {
		lab.Skip(t, "no mount namespaces here: "+string(out))
	}
	g := ground{name: "shm", transport: "shm", size: 2, streams: 1}
	d := g.door(t)
	var ranks []*process
	for rank := range g.size {
		argv := append(full, rankCommand()...)
		ranks = append(ranks, begun(t, exec.Command(argv[0], argv[1:]...), g.environ(d, rank), duty{Form: "allreduce", N: 300_000}))
	}
	for rank, p := range ranks {
		if err := p.hears("running"); err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}
