package job

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/untrusted"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/sight/stacks"
	"github.com/gorun/gorun/launcher/session"
)

const (
	stacksLimit = 8 * time.Second // time limit of a host's answer
	maxReport   = 1 << 18         // values of the report about one rank, but for NCCL's
	maxRAS      = 1 << 21         // values of what NCCL tells rank 0 of tens of thousands of ranks
)

// look returns the stacks of ranks (none: all) in any order. The reports of a host's ranks say if
// the host does not answer.
func (h hostRequests) look(ctx context.Context, ranks []int) ([]stacks.Rank, error) {
	hosts, err := h.perHost(ranks)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stacksLimit, errors.New("it does not answer"))
	defer cancel()
	var mu sync.Mutex
	var all []stacks.Rank
	err = each(hosts, func(s *session.Session, ranks []int) error {
		if len(ranks) == 0 {
			if ranks = append(s.Host.Numbers(), s.Spawned()...); len(ranks) == 0 {
				return nil // no rank runs yet; some may be spawned
			}
		}
		reports, err := lookAt(ctx, s, ranks)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, reports...)
		for _, rank := range ranks {
			if !slices.ContainsFunc(reports, func(r stacks.Rank) bool { return r.Rank == rank }) {
				why := "it has ended"
				if err != nil {
					why = err.Error()
				}
				all = append(all, stacks.Rank{Rank: rank, Host: s.Host.Name, Error: why})
			}
		}
		return nil
	})
	return all, err
}

// lookAt returns the stacks of the ranks of one host, except those that cannot be read.
func lookAt(ctx context.Context, s *session.Session, ranks []int) ([]stacks.Rank, error) {
	e, err := s.Ask(wire.Ask{Kind: wire.AskStacks, Ranks: ranks})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	r := newReports(s.Host.Name, ranks)
	err = e.Output(ctx, r.add)
	return r.all, cmp.Or(err, r.end())
}

// reports reads what a host says of its ranks, a line of each. It keeps no memory of what is beyond
// the bounds of a report.
type reports struct {
	host    string
	awaited map[int]bool // ranks of which nothing came yet
	came    int          // bytes
	line    []byte       // the beginning of a line whose end is to come
	all     []stacks.Rank
}

func newReports(host string, ranks []int) *reports {
	r := &reports{host: host, awaited: map[int]bool{}}
	for _, rank := range ranks {
		r.awaited[rank] = true
	}
	return r
}

// add reads the next bytes.
func (r *reports) add(data []byte) error {
	if r.came += len(data); r.came > stacks.MaxReports {
		return fmt.Errorf("%s: an answer of more than %d bytes", r.host, stacks.MaxReports)
	}
	for len(data) > 0 {
		piece, rest, whole := bytes.Cut(data, []byte("\n"))
		data = rest
		if len(r.line)+len(piece) > stacks.MaxReport {
			return fmt.Errorf("%s: a report of more than %d bytes", r.host, stacks.MaxReport)
		}
		r.line = append(r.line, piece...)
		if !whole {
			break
		}
		if err := r.end(); err != nil {
			return err
		}
	}
	return nil
}

// most is how many values the line may have: more for what NCCL tells rank 0.
func (r *reports) most() int {
	var nccl struct {
		RAS json.RawMessage `json:"nccl_ras"`
	}
	if !r.awaited[0] || untrusted.Unmarshal(r.line, maxReport+maxRAS, &nccl) != nil {
		return maxReport
	}
	return maxReport + untrusted.Values(nccl.RAS)
}

// end reads a line that has come.
func (r *reports) end() error {
	if len(r.line) == 0 {
		return nil
	}
	var told, kept stacks.Rank
	err := untrusted.Unmarshal(r.line, r.most(), &told)
	r.line = r.line[:0]
	if err == nil && !r.awaited[told.Rank] {
		err = fmt.Errorf("it reported rank %d, which was not requested or was reported before", told.Rank)
	}
	told.Host = r.host
	told.Trim()
	if err == nil {
		var line []byte
		line, err = json.Marshal(told)
		err = cmp.Or(err, json.Unmarshal(line, &kept))
	}
	if err != nil {
		return fmt.Errorf("read what the host says of its ranks: %w", err)
	}
	delete(r.awaited, told.Rank)
	r.all = append(r.all, kept)
	return nil
}

// stacks answers a request for the stacks of ranks.
func (h hostRequests) stacks(w http.ResponseWriter, r *http.Request) error {
	var want control.Stacks
	if err := decode(w, r, &want); err != nil {
		return err
	}
	all, err := h.look(r.Context(), want.Ranks)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b stacks.Rank) int { return a.Rank - b.Rank })
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"ranks": all}) // the client may have gone
	return nil
}
