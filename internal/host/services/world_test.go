package services

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

// told is a world of three ranks on two hosts, whose numbers are even on the first.
func told() wire.World {
	word := wire.Texts{"a"}
	return wire.World{
		ID:       1,
		By:       1,
		Number:   3,
		Programs: []wire.SpawnProgram{{Argv: word, Ranks: 1}, {Argv: word, Ranks: 2}},
		Numbers:  []int{4, 5, 6},
		HostOf:   []int{7, 2, 7},
	}
}

// registries are those of the two hosts.
func registries() (hosts [2]*registry) {
	for i := range hosts {
		hosts[i] = newRegistry(wire.Spawn{
			First: 4 + i,
			Step:  2,
			Total: 10,
			Most:  9,
		})
	}
	return hosts
}

func TestWorldOfTwoHosts(t *testing.T) {
	r := registries()[0]
	w := must.Get(r.add(told()))(t)
	check.That(t, slices.Equal(w.Here, []int{0, 2}) && slices.Equal(w.Nodes(), []int{0, 1, 0}) &&
		slices.Equal(w.Shares(), []int{1, 2}) && w.Name("job") == "job_3",
		"here %v, nodes %v, shares %v, name %s", w.Here, w.Nodes(), w.Shares(), w.Name("job"))
	check.Slice(t, []int{w.ProgramOf(0), w.ProgramOf(1), w.ProgramOf(2)}, []int{0, 1, 1}, "programs")
	check.That(t, r.of(6) == w && r.of(5) == nil && w.RankOf(6) == 2 && w.RankOf(7) == -1,
		"a rank is not found by its number, or one of another host is")
	r.ended(4)
	got := r.numbers()
	check.That(t, slices.Equal(got, []int{6}), "%v run", got)
	w.Enter(2)
	check.That(t, !w.Came(0) && w.Came(2), "it is not known which rank has come")
	for _, change := range []func(*wire.World){
		func(w *wire.World) { w.Numbers = w.Numbers[1:] }, func(w *wire.World) { w.HostOf = nil }, func(w *wire.World) {
			w.Programs[0].Ranks = -1
		},
		func(w *wire.World) { w.Programs[0].Argv = nil },
	} {
		broken := told()
		if change(&broken); len(broken.Programs) > 0 {
			check.Error(r.add(broken)).Any(t, broken, "is taken")
		}
	}
}

// Ranks of a world meet in its fences alone, wherever they are, and one that does not come holds up
// only those that wait for it.
func TestFenceOfAWorld(t *testing.T) {
	shared := fake.NewStore(1)
	var worlds [2]*World
	for i, r := range registries() {
		worlds[i] = must.Get(r.add(told()))(t)
	}
	for _, name := range []string{"pmi/1", "pmi/2"} {
		var wg sync.WaitGroup
		for rank, value := range []string{"a", "b", "c"} {
			wg.Go(func() {
				all, err := worlds[rank%2].Fence(t.Context(), shared, name, rank, []byte(value))
				check.That(t, err == nil && len(all) == 3 && string(slices.Concat(all...)) == "abc",
					"rank %d: %q, %v", rank, all, err)
			})
		}
		wg.Wait()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.Error(worlds[0].Fence(ctx, shared, "pmi/3", 0, nil)).Is(t, context.Canceled)
	_, err := worlds[0].Fence(ctx, shared, "pmi/3", 0, nil)
	check.That(t, err != nil && !errors.Is(err, context.Canceled), "a rank that comes twice: %v", err)
	check.Error(worlds[1].Fence(ctx, shared, "pmi/3", 1, nil)).Is(t, context.Canceled,
		"a rank that waits for another host")
}

func TestAnswersGoToTheRankThatAsked(t *testing.T) {
	r := registries()[0]
	id, answer := r.ask(1)
	other := told()
	other.By = 2 // of another host, whose request has the same number
	r.answer(other, spawned{Err: errors.New("another")})
	r.answer(told(), spawned{World: &World{}})
	a := <-answer
	check.That(t, id == 1 && a.Err == nil && a.World != nil, "request %d: %+v", id, a)
	r.answer(told(), spawned{}) // nobody waits
	first, done := r.takeTurn()
	second, _ := r.takeTurn()
	<-first
	select {
	case <-second:
		t.Error("the second world has its turn before the first is done")
	default:
	}
	close(done)
	<-second
}

// A host asks for one world at a time, whatever its ranks ask for: the launcher fails a host to
// which it has to send too many.
func TestHostsAskForOneWorldAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, w := io.Pipe()
		s := &Services{
			relay:  newRelay(wire.NewWriter(w), 1, 2),
			mpi:    &mpi{others: map[int]bool{}},
			worlds: registries()[0],
			asking: make(chan struct{}, 1),
			opts:   Options{MaySpawn: func(context.Context, wire.SpawnRequest) error { return nil }},
		}
		frames := wire.NewReader(out)
		came := make(chan wire.SpawnRequest, 2)
		go func() {
			for range cap(came) {
				came <- next[wire.SpawnRequest](t, frames, wire.TypeSpawn)
			}
		}()
		refused := errors.New("no room")
		var asks sync.WaitGroup
		for range cap(came) {
			asks.Go(func() {
				_, err := s.ask(t.Context(), wire.SpawnRequest{By: 1})
				check.Error(err).Is(t, refused)
			})
		}
		for range cap(came) {
			synctest.Wait()
			must.Equal(t, len(came), 1, "requests at a time")
			r := <-came
			s.worlds.answer(wire.World{ID: r.ID, By: r.By}, spawned{Err: refused})
		}
		asks.Wait()
	})
}
