package stacks

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/sight/recorder"
)

// Wait is a collective in which ranks wait for others.
type Wait struct {
	Call    recorder.Call // call of one of the waiting ranks
	Waiting []int         // ranks of the job
	Missing []int         // ranks that have not entered the call
	Longest time.Duration
	Init    bool   // whether ranks wait in Init for others to join the job
	NCCL    string // collective's name, if PyTorch's flight recorder has it; Call is then empty
	Differ  string // call that Missing have entered instead, for NCCL
}

// Waits returns the collectives for which ranks are missing, the oldest first. size is the number
// of ranks in the job.
func Waits(ranks []Rank, size int) []Wait {
	waits := slices.Concat(joins(ranks, size), tensors(ranks), calls(ranks), flights(ranks))
	slices.SortStableFunc(waits, func(a, b Wait) int { return cmp.Compare(b.Longest, a.Longest) })
	return waits
}

// maxCalls bounds the calls that are compared with what all ranks do. A host may say that its ranks
// are in any number of them.
const maxCalls = 1 << 10

// oldest returns the keys of the calls in which ranks have waited longest, at most maxCalls.
func oldest[K comparable](all map[K]*Wait, compare func(a, b K) int) []K {
	keys := slices.SortedFunc(maps.Keys(all), func(a, b K) int {
		return cmp.Or(cmp.Compare(all[b].Longest, all[a].Longest), compare(a, b))
	})
	return keys[:min(len(keys), maxCalls)]
}

// joins finds ranks that wait in Init while others have not called it.
func joins(ranks []Rank, size int) []Wait {
	w := Wait{Init: true}
	for _, r := range ranks {
		switch {
		case r.Record == nil:
			w.Missing = append(w.Missing, r.Rank)
		case !r.Record.Joined:
			w.Waiting = append(w.Waiting, r.Rank)
			w.Longest = max(w.Longest, r.Record.Since)
		}
	}
	if len(w.Waiting) == 0 || len(w.Missing) == 0 {
		return nil
	}
	return []Wait{w}
}

// tensors finds tensors that some ranks have submitted to a queue and others have not.
func tensors(ranks []Rank) (waits []Wait) {
	type key struct {
		comm uint64
		name string
	}
	all := map[key]*Wait{}
	for _, r := range ranks {
		if r.Record == nil {
			continue
		}
		for _, t := range r.Record.Tensors {
			k := key{t.Comm, t.Name}
			if all[k] == nil {
				all[k] = &Wait{Call: t}
			}
			all[k].Waiting = append(all[k].Waiting, r.Rank)
			all[k].Longest = max(all[k].Longest, t.Began)
		}
	}
	for _, k := range oldest(all, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.comm, b.comm), cmp.Compare(a.name, b.name))
	}) {
		w := all[k]
		for _, r := range ranks {
			if r.Record != nil && r.Record.Comm(k.comm) != nil && r.Record.Pending <= len(r.Record.Tensors) &&
				!slices.Contains(w.Waiting, r.Rank) {
				w.Missing = append(w.Missing, r.Rank)
			}
		}
		if len(w.Missing) > 0 {
			waits = append(waits, *w)
		}
	}
	return waits
}

// calls finds collectives of communicators that some ranks are in and others have not begun.
func calls(ranks []Rank) (waits []Wait) {
	type key struct{ comm, number uint64 }
	all := map[key]*Wait{}
	for _, r := range ranks {
		if r.Record == nil {
			continue
		}
		for i := range r.Record.Comms {
			c := r.Record.Comms[i].Current()
			if c == nil || recorder.KindName(c.Kind) == "message" {
				continue
			}
			k := key{c.Comm, c.Number}
			if all[k] == nil {
				all[k] = &Wait{Call: *c}
			}
			all[k].Waiting = append(all[k].Waiting, r.Rank)
			all[k].Longest = max(all[k].Longest, c.Took)
		}
	}
	for _, k := range oldest(all, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.comm, b.comm), cmp.Compare(a.number, b.number))
	}) {
		w := all[k]
		for _, r := range ranks {
			if r.Record == nil {
				continue
			}
			if c := r.Record.Comm(k.comm); c != nil && last(c) < k.number {
				w.Missing = append(w.Missing, r.Rank)
			}
		}
		if len(w.Missing) > 0 {
			waits = append(waits, *w)
		}
	}
	return waits
}

func last(c *recorder.Comm) uint64 {
	if n := len(c.Calls); n > 0 {
		return c.Calls[n-1].Number
	}
	return 0
}
