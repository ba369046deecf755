package ring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// duty is what a rank does until that fails.
type duty struct {
	Form    string
	Way     string // plain, started or part
	N, Root int
	// Reach, from 1 to 1000, makes the rank kill itself in its fourth call, when that
	// many thousandths of the result have come.
	Reach int
	Wait  bool // with the fourth call until a line comes in
}

// dutyCalls is how many calls a rank makes before it says so.
const dutyCalls = 3

// doDuty is the role of a rank with a duty.
func doDuty(told string) error {
	var d duty
	if err := json.Unmarshal([]byte(told), &d); err != nil {
		return err
	}
	c, err := ring.Init(context.Background())
	if err != nil {
		return err
	}
	defer c.Close()
	return tell(d.work(c, os.Stdin, func() { fmt.Println("running") }))
}

// work does the duty until it fails, and returns that error.
func (d duty) work(c *ring.Comm, in io.Reader, running func()) error {
	f := specOf(d.Form)
	do := synchronously
	switch d.Way {
	case "started":
		do = asynchronously
	case "part":
		part, err := ring.Split(ctx, c, 0, -c.Rank())
		if err != nil {
			return err
		}
		defer part.Close()
		c = part
	}
	for call := 0; ; call++ {
		if call == dutyCalls {
			running()
			if d.Wait {
				_, _ = in.Read(make([]byte, 1)) // its end will do as well
			}
		}
		s := position{n: d.N, root: d.Root}.at(c)
		room := heap
		if d.Reach > 0 && call == dutyCalls {
			room = outside
		}
		w := f.fill(s, room)
		if d.Reach > 0 && call == dutyCalls && w.Dst.Len > 0 {
			go dieAt(w.Dst, d.Reach)
		}
		if err := do(ctx, c, w); err != nil {
			return err
		}
		if err := f.check(s, w); err != nil {
			return err
		}
	}
}

// outside is memory that the race detector does not watch.
func outside(n int) []float32 {
	memory, err := unix.Mmap(-1, 0, 4*n+4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&memory[0])), n)
}

// dieAt kills this process when so many thousandths of dst have changed.
func dieAt(dst ring.Buffer, thousandths int) {
	place := (*uint32)(unsafe.Add(dst.Ptr, 4*((dst.Len-1)*thousandths/1000)))
	for before := atomic.LoadUint32(place); atomic.LoadUint32(place) == before; {
	}
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
}

// role is the duty as the role of a process.
func (d duty) role(t *testing.T) string {
	t.Helper()
	text := must.Get(json.Marshal(d))(t)
	return "duty " + string(text)
}

// startRank starts one rank of d on l.
func startRank(t *testing.T, l layout, d *ringtest.Job, rank int, what duty) *lab.Program {
	t.Helper()
	return start(t, l.environ(d, rank), what.role(t))
}
