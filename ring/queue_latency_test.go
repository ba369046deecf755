package ring_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

const latencyTurn = 200 // calls of one kind, before those of the other

// latencies are medians of one size, in µs.
type latencies struct {
	Call, Do, Queue float64
}

// BenchmarkQueueLatency compares an allreduce by two processes of this host on the Comm, by
// Queue.Do, and by Queue.Submit and Wait, in turns.
func BenchmarkQueueLatency(b *testing.B) {
	for _, bytes := range []int{4, 4 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dB", bytes), func(b *testing.B) {
			job := ringtest.NewJob(b, 2)
			job.Transport = "shm"
			role := fmt.Sprintf("latency %d %d", bytes, b.N)
			var got latencies
			b.ResetTimer()
			ranks := [2]*lab.Program{start(b, job.Environ(0), role), start(b, job.Environ(1), role)}
			line, err := ranks[0].Hear("{")
			if err == nil {
				err = json.Unmarshal([]byte(line), &got)
			}
			_, theirs := ranks[1].Hear("{")
			must.OK(b, errors.Join(err, theirs))
			b.ReportMetric(got.Call, "call-µs")
			b.ReportMetric(got.Do, "do-µs")
			b.ReportMetric(got.Queue, "submit+wait-µs")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// measureLatency is the role of a rank that prints medians of vectors of so many bytes in so many
// turns.
func measureLatency(told string) error {
	var bytes, turns int
	if _, err := fmt.Sscan(told, &bytes, &turns); err != nil {
		return err
	}
	c, err := ring.Init(ctx)
	if err != nil {
		return err
	}
	q, err := ring.NewQueue(ctx, c)
	if err != nil {
		return err
	}
	buf := make([]float32, bytes/4)
	call := func() error { return ring.AllReduce(ctx, c, buf, ring.Sum) }
	queue := func() error {
		ticket, err := ring.QueueAllReduce(q, "x", buf, buf, ring.Sum)
		if err != nil {
			return err
		}
		return ticket.Wait(ctx)
	}
	vector := ring.BufferOf(buf)
	do := func() error {
		return q.Do(ctx, "x", collective(ring.KindAllReduce, ring.Float32, ring.Sum, vector, vector))
	}
	var took [3][]time.Duration
	for turn := range turns + 1 {
		for i, do := range []func() error{call, do, queue} {
			for range latencyTurn {
				begun := time.Now()
				if err := do(); err != nil {
					return err
				}
				if turn > 0 {
					took[i] = append(took[i], time.Since(begun))
				}
			}
		}
	}
	median := func(took []time.Duration) float64 {
		slices.Sort(took)
		return float64(took[len(took)/2].Nanoseconds()) / 1e3
	}
	text, err := json.Marshal(latencies{median(took[0]), median(took[1]), median(took[2])})
	fmt.Printf("%s\n", text)
	return errors.Join(err, q.Close(), c.Close())
}
