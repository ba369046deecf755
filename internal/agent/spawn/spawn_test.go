package spawn

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gorun/gorun/internal/wire"
)

func request(ranks ...int) Request {
	r := Request{By: 1}
	for _, n := range ranks {
		r.Programs = append(r.Programs, Program{Argv: []string{"a"}, Ranks: n})
	}
	return r
}

func TestNumbersAreThisHostsAndNeverUsedAgain(t *testing.T) {
	b := NewBook(wire.Spawn{First: 5, Step: 3, Total: 100, Most: 3}, "f1")
	w, err := b.Open(request(1, 2))
	if err != nil || !slices.Equal(w.Ranks, []int{5, 8, 11}) {
		t.Fatalf("%v, %v", w, err)
	}
	if got := []int{w.ProgramOf(0), w.ProgramOf(1), w.ProgramOf(2)}; !slices.Equal(got, []int{0, 1, 1}) {
		t.Errorf("programs %v", got)
	}
	if b.Of(8) != w || w.RankOf(8) != 1 || w.RankOf(6) != -1 || b.Of(6) != nil {
		t.Error("a rank is not found by its number, or another one is")
	}
	if _, err := b.Open(request(1)); err == nil || !strings.Contains(err.Error(), "4 spawned ranks would run on this host, and --max-spawn allows 3") {
		t.Errorf("beyond the limit: %v", err)
	}
	b.Ended(8)
	b.Ended(8)
	if w, err := b.Open(request(1)); err != nil || !slices.Equal(w.Ranks, []int{14}) || w.Name("job") == "job_1" {
		t.Errorf("after an end: %v, %v", w, err)
	}
}

func TestRefusedRequests(t *testing.T) {
	may := wire.Spawn{First: 1, Step: 1, Total: 5, Most: 10}
	elsewhere := request(1)
	elsewhere.Programs[0].Host = "f2"
	for name, tt := range map[string]struct {
		may  wire.Spawn
		r    Request
		want string
	}{
		"none may":     {wire.Spawn{}, request(1), "--max-spawn"},
		"no program":   {may, request(), "no rank"},
		"no rank":      {may, request(2, -1), "for -1 ranks"},
		"another host": {may, elsewhere, "run only on f1"},
		"too many":     {may, request(6), "can spawn 5"},
	} {
		if _, err := NewBook(tt.may, "f1").Open(tt.r); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// Ranks of a world meet in its fences alone, and one that does not come holds up only those who wait for it.
func TestFenceOfAWorld(t *testing.T) {
	w, err := NewBook(wire.Spawn{First: 4, Step: 1, Total: 10, Most: 10}, "f1").Open(request(2))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var wg sync.WaitGroup
		for rank, value := range []string{"a", "b"} {
			wg.Go(func() {
				all, err := w.Fence(context.Background(), "pmi/1", rank, []byte(value))
				if err != nil || len(all) != 2 || string(all[0])+string(all[1]) != "ab" {
					t.Errorf("rank %d: %q, %v", rank, all, err)
				}
			})
		}
		wg.Wait()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.Fence(ctx, "pmi/2", 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := w.Fence(ctx, "pmi/2", 0, nil); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("a rank that comes twice: %v", err)
	}
	if w.Enter(1); w.Came(0) || !w.Came(1) {
		t.Error("it is not known which rank has come")
	}
}
