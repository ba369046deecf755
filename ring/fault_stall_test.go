package ring_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// absence is a job in which one rank stays away from the third and last call until the others' wait
// was reported.
type absence struct {
	l       layout
	call    string // the kind that is made
	culprit int
	part    bool // in a part without rank 0
	want    string
}

// R5: ranks that wait for one that does not come say so once, with the call and who is missing, and
// go on when it comes. The goal is 30 s; how long it is until then is a setting.
func TestStallNamesTheMissingRanks(t *testing.T) {
	must.HaveTime(t)
	const patience = 3200 * time.Millisecond
	tcp := layouts()[0]
	shm := layouts()[1]
	stacked := layouts()[2]
	broadcast := "broadcast, call 3, has waited 3.2s for rank %d on %s"
	message := "a message after call 0, has waited 3.2s for rank %d on %s"
	absences := []absence{
		{l: tcp, call: "broadcast", culprit: 1, want: broadcast}, // the root is through
		{l: shm, call: "broadcast", culprit: 0, want: broadcast},
		{l: tcp.of(2), call: "message", culprit: 1, want: message},
		{l: shm.of(2), call: "message", culprit: 0, want: message},
		{l: stacked, call: "barrier", culprit: 2, part: true,
			want: "barrier, call 3 of a part of 3 ranks, has waited 3.2s for rank %d on %s"},
	}
	for i, l := range layouts() {
		absences = append(absences, absence{
			l:       l,
			call:    "allreduce",
			culprit: i % l.size,
			want:    "allreduce, call 3, has waited 3.2s for rank %d on %s",
		})
	}
	var running sync.WaitGroup
	for _, a := range absences {
		a.l.more = append(slices.Clone(a.l.more), "RING_STALL="+patience.String())
		a.l.streams = 1
		job := a.l.job(t)
		comms := a.l.join(t, job)
		running.Go(func() {
			check.OK(t, a.happen(comms, job), a.l.name, a.call, "without rank", a.culprit)
		})
	}
	running.Wait()
}

// happen makes the calls of all ranks, and compares what was reported.
func (a absence) happen(comms []*ring.Comm, job *ringtest.Job) error {
	f := specOf(a.call)
	patience, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := ringtest.Each(len(comms), func(rank int) error {
		c := comms[rank]
		if a.part {
			color := min(rank, 1)
			part, err := ring.Split(patience, c, color, 0)
			if err != nil {
				return err
			}
			defer part.Close()
			c = part
		}
		for call := range 3 { // the root of a broadcast stays where it is, through with it
			if call == 2 && rank == a.culprit {
				for reported := 0; reported == 0 && patience.Err() == nil; time.Sleep(10 * time.Millisecond) {
					reported = len(job.Notes())
				}
				time.Sleep(time.Second) // a second report would come by then
			}
			s := position{n: 3000}.at(c)
			w := f.fill(s, heap)
			if err := c.Do(patience, w); err != nil {
				return err
			}
			if err := f.check(s, w); err != nil {
				return err
			}
		}
		return nil
	})
	want := fmt.Sprintf(a.want, a.culprit, comms[a.culprit].Host())
	if got := job.Notes(); len(got) != 1 || got[0] != want {
		err = errors.Join(err, fmt.Errorf("reported %q, want only %q", got, want))
	}
	return err
}

// A program may have reports come to itself; nothing is said when all have come, or when it wants
// none. It is row R5 of the fault matrix.
func TestStallReportOption(t *testing.T) {
	must.HaveTime(t)
	const patience = 800 * time.Millisecond
	l := layouts()[0].of(2)
	job := l.job(t)
	var mu sync.Mutex
	var got []string
	report := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, text)
	}
	comms := make([]*ring.Comm, l.size)
	t.Cleanup(func() { closeAll(comms) })
	ringtest.All(t, l.size, func(rank int) (err error) {
		after := patience
		if rank == 1 {
			after = -1 // it leaves no word, and tells of nobody
		}
		comms[rank], err = ring.Init(ctx, ring.WithEnviron(ringtest.Lookup(l.environ(job, rank))),
			ring.WithStallReport(after, report))
		return err
	})
	for _, late := range []int{0, 1} {
		ringtest.All(t, l.size, func(rank int) error {
			if rank == late {
				time.Sleep(3 * patience)
			}
			return ring.Barrier(ctx, comms[rank])
		})
	}
	mu.Lock()
	defer mu.Unlock()
	want := "barrier, call 2, has waited 800ms for rank 1 on " + comms[1].Host()
	check.That(t, len(got) == 1 && got[0] == want, "reported %q, want %q", got, want)
	notes := job.Notes()
	check.That(t, len(notes) == 0, "gorun was told %q", notes)
	for _, bad := range []string{"soon", "-1s", "5"} {
		_, err := ring.Init(ctx, ring.WithEnviron(ringtest.Lookup([]string{"RING_STALL=" + bad})))
		check.That(t, err != nil, "RING_STALL=%s is taken", bad)
	}
}
