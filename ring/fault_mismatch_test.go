package ring_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// oddity makes a call that differs from f's in one field, and says in which words a
// rank must tell of it.
type oddity struct {
	field  string
	change func(f spec, s position, w *ring.Collective) bool // false where f has no such field
	words  []string
}

func oddities() []oddity {
	return []oddity{
		{"type", func(f spec, s position, w *ring.Collective) bool {
			w.Type = ring.Int32
			return f.kind != ring.KindBarrier
		}, []string{"float32", "int32"}},
		{"op", func(f spec, s position, w *ring.Collective) bool {
			w.Op = ring.Max
			return f.op != 0
		}, []string{"sum", "max"}},
		{"root", func(f spec, s position, w *ring.Collective) bool {
			if !f.rooted() {
				return false
			}
			other := position{
				root: 1,
				rank: s.rank,
				size: s.size,
				n:    s.n,
			}
			*w = f.fill(other, heap)
			return true
		}, []string{"rank 0", "rank 1"}},
		{"count", func(f spec, s position, w *ring.Collective) bool {
			s.n += 2
			*w = f.fill(s, heap)
			return f.kind != ring.KindBarrier
		}, nil},
		{"parts", func(f spec, s position, w *ring.Collective) bool {
			if !f.unlike || f.kind != ring.KindAllGather {
				return false
			}
			w.Counts = append([]int(nil), w.Counts...) // as many in all, from other ranks
			from := (s.rank + 1) % s.size
			to := (s.rank + 2) % s.size
			if w.Counts[from] == 0 {
				from, to = to, from
			}
			w.Counts[from]--
			w.Counts[to]++
			// The culprit's own part stays where it is.
			return to != s.rank && from != s.rank && (to < s.rank) == (from < s.rank)
		}, []string{"unlike parts"}},
	}
}

// disagree runs a job in which rank culprit makes the call odd where the others make
// normal, and then all make others. Every rank must be soon of both, and soon.
func disagree(t *testing.T, l layout, culprit int, normal, odd func(s position) ring.Collective, words []string) {
	t.Helper()
	comms := l.join(t, l.job(t))
	every := specOf("alltoall")                          // in which every two ranks meet
	deadline, cancel := context.WithTimeout(ctx, 5*soon) // a wait without end would hide which calls it was
	defer cancel()
	seen := make(chan error, l.size)
	within(t, soon, func() {
		ringtest.All(t, l.size, func(rank int) error {
			c := comms[rank]
			make := normal
			if rank == culprit {
				make = odd
			}
			err := c.Do(deadline, make(position{}.at(c)))
			for err == nil { // a rank that only sends may be through
				err = c.Do(deadline, every.fill(position{n: 1}.at(c), heap))
			}
			if mismatch, ok := err.(*ring.MismatchError); ok {
				seen <- err
				if mismatch.Mine == mismatch.Theirs || mismatch.Rank != rank {
					return fmt.Errorf("a mismatch without a difference: %w", err)
				}
			}
			return tells(err, words)
		})
	})
	check.That(t, len(seen) != 0, "nobody saw the difference")
	closeAll(comms)
}

// tells checks that err says what differed: all words, or one of them beside the alltoall,
// to which ranks may have gone on that only sent.
func tells(err error, words []string) error {
	missing := differ(err, words...)
	if missing == nil || differ(err, "alltoall") != nil {
		return missing
	}
	for _, word := range words {
		if strings.Contains(err.Error(), word) {
			return nil
		}
	}
	return missing
}

const differing = 100 // elements

// Every two kinds of calls, each rank in turn being the one that makes the other kind.
// It is row R4 of the fault matrix.
func TestDifferentKindsAreReported(t *testing.T) {
	must.HaveTime(t)
	turn := 0
	for _, l := range layouts() {
		for i, normal := range specs() {
			for _, odd := range specs()[i+1:] {
				if normal.kind == odd.kind {
					continue
				}
				for range rounds(1) {
					turn++
					culprit := turn % l.size
					if !sampled(turn) {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/%s/culprit=%d", l.name, normal.name, odd.name, culprit),
						func(t *testing.T) {
							t.Parallel()
							disagree(t, l, culprit, filler(normal), filler(odd),
								[]string{normal.kind.String(), odd.kind.String()})
						})
				}
			}
		}
	}
}

func filler(f spec) func(s position) ring.Collective {
	return func(s position) ring.Collective {
		s.n = differing
		return f.fill(s, heap)
	}
}

// Calls of one kind that differ in a field, each rank being the odd one.
// It is row R4 of the fault matrix.
func TestDifferentFieldsAreReported(t *testing.T) {
	must.HaveTime(t)
	for k, l := range layouts() {
		for j, f := range specs() {
			for i, odd := range oddities() {
				for culprit := range l.size {
					s := position{rank: culprit, size: l.size, n: differing}
					w := f.fill(s, heap)
					if !odd.change(f, s, &w) || !sampled(i+j+k+culprit) {
						continue
					}
					words := append([]string{f.kind.String()}, odd.words...)
					t.Run(fmt.Sprintf("%s/%s/%s/culprit=%d", l.name, f.name, odd.field, culprit), func(t *testing.T) {
						t.Parallel()
						disagree(t, l, culprit, filler(f), func(position) ring.Collective { return w }, words)
					})
				}
			}
		}
	}
}

// twofold is a reduce of sums to rank 0 in which two fields are changed, and the words in which
// both are told of.
func twofold(fields [2]string, s position) (w ring.Collective, words []string) {
	has := func(field string) bool { return slices.Contains(fields[:], field) }
	name := "reduce"
	switch {
	case has("kind") && has("op"):
		name = "reduce-scatter" // has no root
	case has("kind"):
		name = "broadcast" // has no op
	}
	f := specOf(name)
	for field, told := range map[string][]string{
		"kind": {"is reduce", "is " + f.kind.String()}, "type": {"float32", "int32"}, "op": {"sum", "max"},
		"root": {"rank 0", "rank 1"}, "count": {fmt.Sprint(differing), fmt.Sprint(differing + 2)},
	} {
		if has(field) {
			words = append(words, told...)
		}
	}
	if has("root") {
		s.root = 1
	}
	s.n = differing
	if has("count") {
		s.n += 2
	}
	w = f.fill(s, heap)
	if has("type") {
		w.Type = ring.Int32
	}
	if has("op") {
		w.Op = ring.Max
	}
	return w, words
}

// Calls that differ in two fields, every two of them, each rank being the odd one: one difference
// does not hide the other. It is row R4 of the fault matrix.
func TestPairsOfDifferentFieldsAreReported(t *testing.T) {
	must.HaveTime(t)
	normal := specOf("reduce")
	fields := []string{"kind", "type", "op", "root", "count"}
	for k, l := range layouts() {
		for i, one := range fields {
			for j, other := range fields[i+1:] {
				for culprit := range l.size {
					if !sampled(i + j + k + culprit) {
						continue
					}
					w, words := twofold([2]string{one, other}, position{rank: culprit, size: l.size})
					t.Run(fmt.Sprintf("%s/%s+%s/culprit=%d", l.name, one, other, culprit), func(t *testing.T) {
						t.Parallel()
						disagree(t, l, culprit, filler(normal), func(position) ring.Collective { return w }, words)
					})
				}
			}
		}
	}
}

// One rank omits the second of three calls, or swaps the last two.
// It is row R5 of the fault matrix.
func TestSkippedAndSwappedCallsAreReported(t *testing.T) {
	must.HaveTime(t)
	orders := map[string][]string{
		"skipped": {"allreduce", "allgather", "barrier"},
		"swapped": {"allreduce", "allgather", "broadcast", "barrier"},
	}
	onLayouts(t, func(t *testing.T, l layout) {
		for name, order := range orders {
			for culprit := range l.size {
				if !sampled(culprit + len(l.hosts) + l.streams) {
					continue
				}
				comms := l.join(t, l.job(t))
				within(t, soon, func() {
					err := ringtest.Each(l.size, func(rank int) error {
						mine := []string{"allreduce", "broadcast", "allgather", "barrier"}
						if rank == culprit {
							mine = order
						}
						var err error
						for _, call := range mine {
							at := position{n: 3000, root: culprit}
							if err = specOf(call).once(comms[rank], at, synchronously); err != nil {
								break
							}
						}
						return differ(err, "broadcast")
					})
					check.OK(t, err, name, "culprit", culprit)
				})
				closeAll(comms)
			}
		}
	})
}

// A rank that makes fewer calls than the others, and leaves, is an error for them.
// It is row R5 of the fault matrix.
func TestEarlyCloseIsReported(t *testing.T) {
	must.HaveTime(t)
	onLayouts(t, func(t *testing.T, l layout) {
		for i, f := range specs() {
			if !sampled(i + l.size + len(l.hosts) + l.streams) {
				continue
			}
			comms := l.join(t, l.job(t))
			culprit := l.size - 1
			within(t, soon, func() {
				err := ringtest.Each(l.size, func(rank int) error {
					c := comms[rank]
					var err error
					for call := 0; err == nil; call++ {
						if rank == culprit && call == 2 {
							return c.Close()
						}
						err = f.once(c, position{n: 3000, root: 0}, synchronously)
						if f.kind == ring.KindScatter || f.kind == ring.KindBroadcast || f.kind == ring.KindMessage {
							if err == nil && call > 2 {
								err = ring.Barrier(ctx, c) // who only sends need not notice by itself
							}
						}
					}
					return wantPeer(err, culprit)
				})
				check.OK(t, err, f.name)
			})
			closeAll(comms)
		}
	})
}
