package probe

import (
	"cmp"
	"context"
	"os"
	"regexp"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/doctor"
)

// maxRecord bounds a record in the kernel's log in bytes.
const maxRecord = 8 << 10

// xids counts the errors of GPUs in the kernel's log. It returns none where the log may not be
// read.
func xids(ctx context.Context, log string) []doctor.Xid {
	fd, err := unix.Open(log, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), log)
	defer file.Close()
	counter := newXidCounter()
	record := make([]byte, maxRecord)
	for ctx.Err() == nil {
		switch n, err := unix.Read(fd, record); {
		case n > 0:
			counter.add(record[:n])
		case err == unix.EPIPE, err == unix.EINTR: // older records have been overwritten
		default:
			return counter.all()
		}
	}
	return counter.all()
}

// xidCounter counts errors by GPU and code.
type xidCounter struct {
	line  *regexp.Regexp // a record of the driver's
	count map[doctor.Xid]int
}

func newXidCounter() *xidCounter {
	begin := `^[0-7],[^;]*;NVRM: Xid ` // only the kernel itself has the facility 0 of these priorities
	return &xidCounter{regexp.MustCompile(begin + `\(PCI:([0-9a-fA-F:.]{7,16})\): (\d{1,4}),`), map[doctor.Xid]int{}}
}

// add counts the error that a record begins with. In other places a record may have words of any
// user: the kernel tells of a program that has crashed by the name of its file.
func (c *xidCounter) add(record []byte) {
	found := c.line.FindSubmatch(record)
	if found == nil {
		return
	}
	code, _ := strconv.Atoi(string(found[2]))
	if x := (doctor.Xid{Bus: string(found[1]), Code: code}); c.count[x] > 0 || len(c.count) < doctor.MaxXids {
		c.count[x]++
	}
}

func (c *xidCounter) all() (all []doctor.Xid) {
	for x, n := range c.count {
		x.Count = n
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b doctor.Xid) int {
		return cmp.Or(cmp.Compare(a.Bus, b.Bus), cmp.Compare(a.Code, b.Code))
	})
	return all
}
