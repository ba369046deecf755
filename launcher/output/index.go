package output

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
)

// index is the content of index.json, which lists the ranks' files. It exists from the
// start of the job, and records at the end how the ranks ended.
type index struct {
	Version int         `json:"version"`        // version of the format, 1
	Code    *int        `json:"code,omitempty"` // gorun's exit code; absent while the job runs
	Ranks   []indexRank `json:"ranks"`
}

// Ended is how a job ended, for the index.
type Ended struct {
	Code  int // gorun's exit code
	Ranks []RankEnd
}

// RankEnd is how a rank ended.
type RankEnd struct {
	Rank, Code, Signal int
	Stopped            bool          // whether gorun ended it
	After              time.Duration // time since the start of the ranks
}

type indexRank struct {
	Rank      int       `json:"rank"`
	LocalRank int       `json:"local_rank"`
	Host      string    `json:"host"`
	Stdout    *saved    `json:"stdout,omitempty"` // absent: no output
	Stderr    *saved    `json:"stderr,omitempty"`
	Exit      *exitJSON `json:"exit,omitempty"` // absent: unknown
}

// saved is one file.
type saved struct {
	Path  string `json:"path"` // relative to the index's folder, or the path that the user named
	Bytes int64  `json:"bytes"`
}

// exitJSON is how a rank ended.
type exitJSON struct {
	Code    int     `json:"code"`
	Signal  int     `json:"signal,omitempty"`
	Stopped bool    `json:"stopped,omitempty"` // whether gorun ended it
	Seconds float64 `json:"seconds"`           // since the ranks started
}

// indexOf lists the ranks of a job, which has ended if r is not nil.
func (f *Files) indexOf(r *Ended) index {
	x := index{Version: 1, Ranks: make([]indexRank, f.plan.Size)}
	for _, h := range f.plan.Hosts {
		for _, rank := range h.Ranks {
			x.Ranks[rank.Rank] = indexRank{
				Rank:      rank.Rank,
				LocalRank: rank.LocalRank,
				Host:      h.Name,
				Stdout:    f.savedOf(rank.Rank, 1),
				Stderr:    f.savedOf(rank.Rank, 2),
			}
		}
	}
	if r == nil {
		return x
	}
	x.Code = &r.Code
	slices.SortFunc(r.Ranks, func(a, b RankEnd) int { return cmp.Compare(a.Rank, b.Rank) })
	for _, e := range r.Ranks {
		i := e.Rank
		if i >= f.plan.Size { // spawned rank
			i = len(x.Ranks)
			spawned := indexRank{
				Rank:      e.Rank,
				LocalRank: -1,
				Stdout:    f.savedOf(e.Rank, 1),
				Stderr:    f.savedOf(e.Rank, 2),
			}
			if h := f.plan.Host(e.Rank); h != nil {
				spawned.Host = h.Name
			}
			x.Ranks = append(x.Ranks, spawned)
		}
		x.Ranks[i].Exit = &exitJSON{e.Code, e.Signal, e.Stopped, e.After.Seconds()}
	}
	return x
}

func (f *Files) savedOf(rank, fd int) *saved {
	n := f.saved[wire.OutputStream(rank, fd)]
	if n == 0 {
		return nil
	}
	name, _ := f.name(rank, fd)
	return &saved{filepath.ToSlash(name), n}
}

// writeIndex replaces the index, if there is to be one, atomically.
func (f *Files) writeIndex(r *Ended) error {
	if f.dir == "" || f.plan.Size == 0 {
		return nil
	}
	text, err := json.MarshalIndent(f.indexOf(r), "", "  ")
	name := filepath.Join(f.dir, "index.json")
	if err == nil {
		err = trust.WriteFile(name+".new", append(prose.PlainJSON(text), '\n'))
	}
	if err == nil {
		err = trust.Rename(name+".new", name)
	}
	if err != nil {
		return fmt.Errorf("list the output files: %w", err)
	}
	return nil
}
