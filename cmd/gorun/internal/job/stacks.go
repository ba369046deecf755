package job

import (
	"bytes"
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
	maxStacks   = 256 << 20       // bytes of a host's answer
	maxReport   = 1 << 21         // values of a report about one rank; NCCL tells of tens of thousands of ranks
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
func lookAt(ctx context.Context, s *session.Session, ranks []int) (reports []stacks.Rank, err error) {
	out, err := ask(ctx, s, wire.Ask{Kind: wire.AskStacks, Ranks: ranks}, maxStacks)
	if err != nil {
		return nil, err
	}
	return readReports(out, s.Host.Name, ranks)
}

// readReports reads what a host says of its ranks, of each once. It keeps no memory of what is
// beyond the bounds of a report.
func readReports(out []byte, host string, ranks []int) (reports []stacks.Rank, err error) {
	awaited := map[int]bool{}
	for _, rank := range ranks {
		awaited[rank] = true
	}
	for line := range bytes.Lines(out) {
		var told, kept stacks.Rank
		err := untrusted.Unmarshal(line, maxReport, &told)
		if err == nil && !awaited[told.Rank] {
			err = fmt.Errorf("it reported rank %d, which was not requested or was reported before", told.Rank)
		}
		told.Host = host
		told.Trim()
		if err == nil {
			line, err = json.Marshal(told)
		}
		if err == nil {
			err = json.Unmarshal(line, &kept)
		}
		if err != nil {
			return reports, fmt.Errorf("read what the host says of its ranks: %w", err)
		}
		delete(awaited, told.Rank)
		reports = append(reports, kept)
	}
	return reports, nil
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
