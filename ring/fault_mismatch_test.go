package ring_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

const differing = 100 // elements

// oddCall is the call of the rank that makes another one than all others.
type oddCall struct {
	f      spec
	s      position
	change []func(w *ring.Collective) // other changes of the call
}

func (o oddCall) fill(s position) ring.Collective {
	s.root = o.s.root
	s.n = o.s.n
	w := o.f.fill(s, heap)
	for _, change := range o.change {
		change(&w)
	}
	return w
}

// oddity makes one field of a call odd, and returns the words in which a rank must tell of it. It
// is not ok where the call has no such field.
type oddity struct {
	field  string
	change func(o *oddCall) (words []string, ok bool)
}

func oddities() []oddity {
	otherKind := func(name string) oddity {
		return oddity{name, func(o *oddCall) ([]string, bool) {
			ok := o.f.kind == ring.KindReduce
			o.f = specOf(name)
			return []string{"is reduce", "is " + name}, ok
		}}
	}
	return []oddity{
		otherKind("broadcast"),
		otherKind("reduce-scatter"),
		{"type", func(o *oddCall) ([]string, bool) {
			o.change = append(o.change, func(w *ring.Collective) { w.Type = ring.Int32 })
			return []string{"float32", "int32"}, o.f.kind != ring.KindBarrier
		}},
		{"op", func(o *oddCall) ([]string, bool) {
			o.change = append(o.change, func(w *ring.Collective) { w.Op = ring.Max })
			return []string{"sum", "max"}, o.f.op != 0
		}},
		{"root", func(o *oddCall) ([]string, bool) {
			o.s.root = 1
			return []string{"rank 0", "rank 1"}, o.f.rooted()
		}},
		{"count", func(o *oddCall) (words []string, ok bool) {
			o.s.n += 2
			if o.f.kind == ring.KindReduce || o.f.kind == ring.KindBroadcast {
				words = []string{fmt.Sprint(differing), fmt.Sprint(differing + 2)}
			}
			return words, o.f.kind != ring.KindBarrier
		}},
		{"parts", func(o *oddCall) ([]string, bool) {
			from := (o.s.rank + 1) % o.s.size
			to := (o.s.rank + 2) % o.s.size
			if o.s.length(from) == 0 {
				from, to = to, from
			}
			o.change = append(o.change, func(w *ring.Collective) { // as many in all, from other ranks
				w.Counts[from]--
				w.Counts[to]++
			})
			// The culprit's own part stays where it is.
			ok := to != o.s.rank && from != o.s.rank && (to < o.s.rank) == (from < o.s.rank)
			return []string{"unlike parts"}, ok && o.f.unlike && o.f.kind == ring.KindAllGather
		}},
	}
}

// difference is two calls of which one rank makes the odd one, and the words by which all must tell
// of both.
type difference struct {
	name   string
	normal spec
	odd    oddCall
	words  []string
}

// differences are those of every two kinds of calls, of every field of each kind, and of every two
// fields of a reduce, where one difference must not hide the other.
func differences(culprit position) (all []difference) {
	culprit.n = differing
	fields := func(normal spec, odd ...oddity) {
		d := difference{normal.name, normal, oddCall{f: normal, s: culprit}, []string{normal.kind.String()}}
		if len(odd) > 1 {
			d.words = nil
		}
		for _, o := range odd {
			words, ok := o.change(&d.odd)
			if !ok {
				return
			}
			d.name += "/" + o.field
			d.words = append(d.words, words...)
		}
		all = append(all, d)
	}
	for i, normal := range specs() {
		for j, odd := range specs()[i+1:] {
			if normal.kind == odd.kind || rounds(1) == 1 && (i+j)%culprit.size != culprit.rank {
				continue
			}
			all = append(all, difference{
				name:   normal.name + "/" + odd.name,
				normal: normal,
				odd:    oddCall{f: odd, s: culprit},
				words:  []string{normal.kind.String(), odd.kind.String()},
			})
		}
		for _, odd := range oddities()[2:] {
			fields(normal, odd)
		}
	}
	for i, one := range oddities() {
		for _, other := range oddities()[i+1:] {
			fields(specOf("reduce"), one, other)
		}
	}
	return all
}

// One rank makes another call than the others, and then all make the same: each soon hears of both
// calls. It is row R4 of the fault matrix.
func TestDifferentCallsAreReported(t *testing.T) {
	must.HaveTime(t)
	turn := 0
	for _, l := range layouts() {
		for culprit := range l.size {
			for _, d := range differences(position{rank: culprit, size: l.size}) {
				if turn++; !sampled(turn) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/culprit=%d", l.name, d.name, culprit), func(t *testing.T) {
					t.Parallel()
					disagree(t, l, culprit, d)
				})
			}
		}
	}
}

// disagree runs a job with a difference.
func disagree(t *testing.T, l layout, culprit int, d difference) {
	t.Helper()
	comms := l.join(t, l.job(t))
	every := specOf("alltoall")                          // in which every two ranks meet
	deadline, cancel := context.WithTimeout(ctx, 5*soon) // a wait without end would hide which calls it was
	defer cancel()
	seen := make(chan error, l.size)
	within(t, soon, func() {
		ringtest.All(t, l.size, func(rank int) error {
			c := comms[rank]
			call := d.odd
			if rank != culprit {
				call = oddCall{f: d.normal, s: position{n: differing}}
			}
			err := c.Do(deadline, call.fill(position{}.at(c)))
			for err == nil { // a rank that only sends may be through
				err = c.Do(deadline, every.fill(position{n: 1}.at(c), heap))
			}
			if mismatch, ok := err.(*ring.MismatchError); ok {
				seen <- err
				if mismatch.Mine == mismatch.Theirs || mismatch.Rank != rank {
					return fmt.Errorf("a mismatch without a difference: %w", err)
				}
			}
			return tells(err, d.words)
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
