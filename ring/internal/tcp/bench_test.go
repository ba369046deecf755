package tcp

import (
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// twosome is two ends that do the same at the same time, round after round.
type twosome struct {
	rounds [2]chan int
	done   chan error
}

func newTwosome(b *testing.B, do func(end int) error) *twosome {
	w := &twosome{done: make(chan error)}
	for end := range w.rounds {
		w.rounds[end] = make(chan int)
		go func() {
			for n := range w.rounds[end] {
				var err error
				for ; n > 0 && err == nil; n-- {
					err = do(end)
				}
				w.done <- err
			}
		}()
	}
	b.Cleanup(func() { close(w.rounds[0]); close(w.rounds[1]) })
	return w
}

// time returns how long a round takes.
func (w *twosome) time(b *testing.B, n int) time.Duration {
	start := time.Now()
	for _, rounds := range w.rounds {
		rounds <- n
	}
	for range w.rounds {
		if err := <-w.done; err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start) / time.Duration(n)
}

// rawSwap is what sockets can do: both ends send and receive so many bytes at the
// same time, by the means of package net, and nothing is done to the bytes. A swap
// that fits into the sockets needs one goroutine at each end, others two.
func rawSwap(b *testing.B, size int) *twosome {
	dialed, accepted := lab.TCPPair(b)
	ends := [2]net.Conn{dialed, accepted}
	var out, in [2][]byte
	for end := range out {
		out[end] = make([]byte, size)
		in[end] = make([]byte, size)
	}
	if size <= 64<<10 {
		return newTwosome(b, func(end int) error {
			if _, err := ends[end].Write(out[end]); err != nil {
				return err
			}
			_, err := io.ReadFull(ends[end], in[end])
			return err
		})
	}
	begin := [2]chan bool{make(chan bool), make(chan bool)}
	sent := [2]chan error{make(chan error), make(chan error)}
	for end := range begin {
		go func() {
			for range begin[end] {
				_, err := ends[end].Write(out[end])
				sent[end] <- err
			}
		}()
	}
	b.Cleanup(func() { close(begin[0]); close(begin[1]) })
	return newTwosome(b, func(end int) error {
		begin[end] <- true
		_, err := io.ReadFull(ends[end], in[end])
		if serr := <-sent[end]; err == nil {
			err = serr
		}
		return err
	})
}

func flows(b *testing.B, stripes int, of func(rank int) *flow.Flow) *twosome {
	return guardedFlows(b, secure.Plain, stripes, of)
}

func guardedFlows(b *testing.B, guard secure.Guard, stripes int, of func(rank int) *flow.Flow) *twosome {
	nets := guardedWorld(b, guard, 2, stripes)
	linkUp(b, nets)
	both := [2]*flow.Flow{of(0), of(1)}
	return newTwosome(b, func(rank int) error { return nets[rank].Run(both[rank]) })
}

// allreduce is the flow of a rank of two that adds two vectors of float32.
func allreduce(rank int, mine, sum []byte) *flow.Flow {
	halves := [2][2]int{{0, len(mine) / 2}, {len(mine) / 2, len(mine)}}
	own := halves[rank]
	theirs := halves[1-rank]
	return &flow.Flow{
		Sign: &flow.Sign{1},
		To:   1 - rank,
		From: 1 - rank,
		Lead: 1,
		Send: [][]byte{mine[theirs[0]:theirs[1]], sum[own[0]:own[1]]},
		Recv: []flow.Part{
			{Into: sum[own[0]:own[1]], With: mine[own[0]:own[1]]},
			{Into: sum[theirs[0]:theirs[1]]},
		},
		Type: kernel.F32,
		Op:   kernel.Sum,
	}
}

// beside runs contestants in turns, so that they meet the same noise, and reports
// the median and the best round of each and its speed in percent of the first one's.
func beside(b *testing.B, rounds int, names []string, contestants []*twosome) {
	took := make([][]time.Duration, len(contestants))
	for b.Loop() {
		for i, c := range contestants {
			took[i] = append(took[i], c.time(b, rounds))
		}
	}
	var first float64
	for i, t := range took {
		slices.Sort(t)
		median := float64(t[len(t)/2].Nanoseconds()) / 1e3
		if i == 0 {
			first = median
		}
		b.ReportMetric(median, names[i]+"-µs")
		b.ReportMetric(float64(t[0].Nanoseconds())/1e3, names[i]+"-best-µs")
		b.ReportMetric(100*first/median, names[i]+"-%")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkFlowBesideRaw compares flows with what plain sockets do with as many
// bytes.
func BenchmarkFlowBesideRaw(b *testing.B) {
	for _, size := range []int{8, 4 << 10, 16 << 10} {
		b.Run(fmt.Sprintf("exchange/%d", size), func(b *testing.B) {
			beside(b, 100, []string{"raw", "flow"}, []*twosome{
				rawSwap(b, size+flow.SignSize),
				flows(b, 1, func(rank int) *flow.Flow {
					return exchange(1-rank, make([]byte, size), make([]byte, size))
				}),
			})
		})
	}
	for _, size := range []int{1 << 20, 8 << 20, 64 << 20} {
		b.Run(fmt.Sprintf("allreduce/%dMiB", size>>20), func(b *testing.B) {
			sum := func(rank int) *flow.Flow { return allreduce(rank, make([]byte, size), make([]byte, size)) }
			beside(b, max(1, 4<<20/size), []string{"raw", "one", "two"}, []*twosome{
				rawSwap(b, size), flows(b, 1, sum), flows(b, 2, sum),
			})
		})
	}
}

// BenchmarkGuards compares flows whose bytes travel as they are with those that are
// checked and encrypted.
func BenchmarkGuards(b *testing.B) {
	for _, size := range []int{8, 64 << 10, 1 << 20, 16 << 20} {
		for _, stripes := range []int{1, 2} {
			b.Run(fmt.Sprintf("%dKiB/streams=%d", size>>10, stripes), func(b *testing.B) {
				sum := func(rank int) *flow.Flow { return allreduce(rank, make([]byte, size), make([]byte, size)) }
				contestants := []*twosome{guardedFlows(b, secure.Plain, stripes, sum),
					guardedFlows(b, secure.Checked, stripes, sum), guardedFlows(b, secure.Encrypted, stripes, sum)}
				beside(b, min(200, max(1, 4<<20/size)), []string{"plain", "checked", "encrypted"}, contestants)
			})
		}
	}
}
