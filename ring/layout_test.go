package ring_test

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// layout is how the ranks of a job under test lie on hosts, and how they are connected.
type layout struct {
	name      string
	transport string
	hosts     []int // ranks of each host; one host for nil
	size      int
	streams   int
	more      []string // of the environment
	opts      []ring.Option
}

func layouts() []layout {
	return []layout{
		{name: "tcp", transport: "tcp", size: 4, streams: 1},
		{name: "shm", transport: "shm", size: 4, streams: 1},
		{name: "stacked-2+2", transport: "auto", hosts: []int{2, 2}, size: 4, streams: 1},
		{name: "stacked-3+1", transport: "auto", hosts: []int{3, 1}, size: 4, streams: 1},
		{name: "two-streams", transport: "tcp", size: 3, streams: 2},
		{name: "encrypted", transport: "auto", hosts: []int{2, 1}, size: 3, streams: 2,
			more: []string{"GORUN_ENCRYPT=1"}},
	}
}

// over returns so many ranks of one host that have one transport, with more in their environment.
func over(transport string, size int, more ...string) layout {
	return layout{
		name:      transport,
		transport: transport,
		size:      size,
		streams:   1,
		more:      more,
	}
}

// stacked returns ranks on hosts that use memory and network, with more in their environment.
func stacked(hosts []int, more ...string) layout {
	l := layout{transport: "auto", hosts: hosts, more: more}
	for _, n := range hosts {
		l.size += n
	}
	return l
}

// onLayouts runs test on every layout.
func onLayouts(t *testing.T, test func(t *testing.T, l layout)) {
	for _, l := range layouts() {
		t.Run(l.name, func(t *testing.T) { test(t, l) })
	}
}

// onTransports runs test over TCP, in shared memory, and with both.
func onTransports(t *testing.T, test func(t *testing.T, l layout)) {
	for _, l := range layouts()[:3] {
		t.Run(l.name, func(t *testing.T) { test(t, l) })
	}
}

// of returns the layout with another number of ranks; those of a stacked one go two by two.
func (l layout) of(size int) layout {
	l.size = size
	if l.hosts != nil {
		l.hosts = nil
		for left := size; left > 0; left -= 2 {
			l.hosts = append(l.hosts, min(2, left))
		}
	}
	return l
}

func (l layout) job(tb testing.TB) *ringtest.Job {
	job := ringtest.NewJob(tb, l.size)
	job.Transport = l.transport
	job.Hosts = l.hosts
	return job
}

// environ is the environment of a rank, as NAME=value.
func (l layout) environ(job *ringtest.Job, rank int) []string {
	return append(append(job.Environ(rank), "RING_STREAMS="+strconv.Itoa(max(l.streams, 1))), l.more...)
}

// enter makes one rank of job a goroutine of this process.
func (l layout) enter(ctx context.Context, job *ringtest.Job, rank int) (*ring.Comm, error) {
	return ring.Init(ctx, append(slices.Clone(l.opts), ring.WithEnviron(ringtest.Lookup(l.environ(job, rank))))...)
}

// join makes all ranks of job goroutines of this process, but for those that are not, or not yet,
// here.
func (l layout) join(tb testing.TB, job *ringtest.Job, absent ...int) []*ring.Comm {
	tb.Helper()
	comms := make([]*ring.Comm, l.size)
	err := ringtest.Each(l.size, func(rank int) (err error) {
		if !slices.Contains(absent, rank) {
			comms[rank], err = l.enter(ctx, job, rank)
		}
		return err
	})
	tb.Cleanup(func() { closeAll(comms) })
	must.OK(tb, err, "join")
	return comms
}

func closeAll(comms []*ring.Comm) {
	for _, c := range comms {
		if c != nil {
			c.Close()
		}
	}
}
