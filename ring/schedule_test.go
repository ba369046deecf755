package ring

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gorun/gorun/ring/internal/kernel"
)

// contribution is a set of ranks whose data is in a chunk.
type contribution map[int]int

// TestScheduleAgainstSimulation plays all ranks of an allreduce, step by step, and
// counts whose data is where.
func TestScheduleAgainstSimulation(t *testing.T) {
	for size := 1; size <= 64; size++ {
		held := make([][]contribution, size) // by rank and chunk
		for rank := range held {
			for range size {
				held[rank] = append(held[rank], contribution{rank: 1})
			}
		}
		for step := range 2 * (size - 1) {
			before := held
			held = make([][]contribution, size)
			for rank := range held {
				held[rank] = slices.Clone(before[rank])
			}
			for rank := range held {
				prev := (rank - 1 + size) % size
				sent, _ := schedule(prev, size, step)
				_, expected := schedule(rank, size, step)
				if sent != expected {
					t.Fatalf("%d ranks, step %d: rank %d sends chunk %d, rank %d expects %d", size, step, prev, sent, rank, expected)
				}
				got := contribution{}
				for r, n := range before[prev][sent] {
					got[r] += n
				}
				if step < size-1 { // combine; later steps replace
					for r, n := range before[rank][sent] {
						got[r] += n
					}
				}
				held[rank][sent] = got
			}
		}
		for rank := range held {
			for chunk, from := range held[rank] {
				for r := range size {
					if from[r] != 1 {
						t.Fatalf("%d ranks: rank %d has data of rank %d in chunk %d %d times", size, rank, r, chunk, from[r])
					}
				}
			}
		}
	}
}

func TestSpansCoverAll(t *testing.T) {
	for size := 1; size <= 64; size++ {
		for _, n := range []int{0, 1, size - 1, size, size + 1, 2*size - 1, 2 * size, 2*size + 1, 1000, 1 << 46} {
			end := 0
			for i := range size {
				lo, hi := span(n, size, i)
				if lo != end || hi-lo < n/size || hi-lo > n/size+1 {
					t.Fatalf("chunk %d of %d of %d elements is [%d, %d), the one before ends at %d", i, size, n, lo, hi, end)
				}
				end = hi
			}
			if end != n {
				t.Fatalf("%d chunks of %d elements end at %d", size, n, end)
			}
		}
	}
}

// TestMeetingsReachEveryone plays the rounds of a barrier: knowledge is passed
// on, both ways, and after the last round everyone knows of everyone.
func TestMeetingsReachEveryone(t *testing.T) {
	for size := 1; size <= 250; size++ {
		knows := make([]map[int]bool, size)
		for rank := range knows {
			knows[rank] = map[int]bool{rank: true}
		}
		for round := range meetings(0, size) {
			next := make([]map[int]bool, size)
			for rank := range next {
				next[rank] = map[int]bool{}
				for _, from := range append(meetings(rank, size)[round], rank) {
					if from != rank && !slices.Contains(meetings(from, size)[round], rank) {
						t.Fatalf("%d ranks: %d meets %d, but not the other way round", size, rank, from)
					}
					for r := range knows[from] {
						next[rank][r] = true
					}
				}
			}
			knows = next
		}
		for rank := range knows {
			if len(knows[rank]) != size {
				t.Fatalf("%d ranks: rank %d knows of %d", size, rank, len(knows[rank]))
			}
		}
	}
}

// pipe is a link inside the process, with room for all that is sent.
type pipe struct{ in, out chan []byte }

func (p pipe) Send(b []byte)         { p.out <- slices.Clone(b) }
func (p pipe) Flush() error          { return nil }
func (p pipe) Pending(b []byte) bool { return false }

func (p pipe) Recv(b []byte) error {
	for len(b) > 0 {
		part := <-p.in
		if copy(b, part) != len(part) {
			return fmt.Errorf("%d bytes came, at most %d were expected", len(part), len(b))
		}
		b = b[len(part):]
	}
	return nil
}

// meshes joins size ranks by pipes.
func meshes(size, segment int) []*mesh {
	type direction struct{ from, to int }
	ways := map[direction]chan []byte{}
	way := func(from, to int) chan []byte {
		d := direction{from, to}
		if ways[d] == nil {
			ways[d] = make(chan []byte, 1000)
		}
		return ways[d]
	}
	all := make([]*mesh, size)
	for rank := range all {
		links := map[int]link{}
		for _, round := range meetings(rank, size) {
			for _, other := range round {
				links[other] = pipe{in: way(other, rank), out: way(rank, other)}
			}
		}
		all[rank] = newMesh(rank, size, segment, links, kernel.Set{})
	}
	return all
}

// TestAllReduceOfManyRanks runs the real algorithm with more ranks than sockets
// are made for in the other tests.
func TestAllReduceOfManyRanks(t *testing.T) {
	for size := 1; size <= 64; size++ {
		for _, n := range []int{0, 1, size - 1, size, size + 1, 5*size + 3} {
			ranks := meshes(size, 16)
			failed := make(chan error, size)
			for rank, m := range ranks {
				go func() {
					buf := make([]float64, n)
					for i := range buf {
						buf[i] = float64(rank * (i + 1))
					}
					err := m.agree(Call{Kind: KindAllReduce, Count: uint64(n)})
					if err == nil {
						err = m.allReduce(bytesOf(buf), Float64, Sum)
					}
					for i, v := range buf {
						if want := float64(size * (size - 1) / 2 * (i + 1)); v != want && err == nil {
							err = fmt.Errorf("%d ranks, rank %d: element %d of %d is %v, want %v", size, rank, i, n, v, want)
						}
					}
					failed <- err
				}()
			}
			for range ranks {
				if err := <-failed; err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
