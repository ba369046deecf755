package services

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// relayPair returns a relay for 2 local ranks of 4, and its frames.
func relayPair(t *testing.T) (*relay, *wire.Reader) {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { r.Close() })
	return newRelay(wire.NewWriter(w), 2, 4), wire.NewReader(r)
}

// next reads the message of type want that must come now.
func next[T any](t *testing.T, frames *wire.Reader, want wire.Type) (message T) {
	t.Helper()
	f, err := frames.Next()
	must.That(t, err != nil || f.Type == want, "%s came where %s was due", f.Type, want)
	if err == nil {
		err = f.Decode(&message)
	}
	must.OK(t, err)
	return message
}

func TestRelayFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, frames := relayPair(t)
		want := [][]byte{[]byte("a"), {}, []byte("c"), []byte("d")}
		var wg sync.WaitGroup
		fence := func(name string, rank int, value string) {
			wg.Go(func() {
				got, err := r.Fence(t.Context(), name, rank, []byte(value))
				check.That(t, err == nil && fmt.Sprint(got) == fmt.Sprint(want), "rank %d got %q, %v", rank, got, err)
			})
		}
		for round := range 3 { // a name can be used again
			fence("f", 2, "c")
			synctest.Wait()
			fence("f", 3, "d")
			got := next[wire.Fence](t, frames, wire.TypeFence)
			check.That(t, reflect.DeepEqual(got, wire.Fence{Name: "f",
				Values: map[int][]byte{2: []byte("c"), 3: []byte("d")}}), "round %d: sent %+v", round, got)
			synctest.Wait()
			r.fenced(wire.Fence{Name: "other"})
			r.fenced(wire.Fence{Name: "f", Values: map[int][]byte{0: []byte("a"), 1: {}, 2: []byte("c"), 3: []byte("d"),
				4: []byte("x"), -1: []byte("x")}})
			r.fenced(wire.Fence{Name: "f"})
			wg.Wait()
		}
	})
}

// TestRelayPostsToAFenceOnce checks that a rank which repeats an abandoned post gets an error: the
// launcher ends hosts that post twice.
func TestRelayPostsToAFenceOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, w := io.Pipe()
		defer out.Close()
		r := newRelay(wire.NewWriter(w), 1, 2)
		frames := wire.NewReader(out)
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { _, err := r.Fence(ctx, "f", 1, nil); first <- err }()
		next[wire.Fence](t, frames, wire.TypeFence)
		cancel()
		check.Error(<-first).Is(t, context.Canceled, "who gave up")
		again := make(chan error, 2)
		post := func() { _, err := r.Fence(t.Context(), "f", 1, nil); again <- err }
		go post()
		synctest.Wait()
		select {
		case err := <-again:
			twice := new(kv.DuplicateError)
			check.That(t, errors.As(err, &twice), "posted again: %v", err)
		default:
			next[wire.Fence](t, frames, wire.TypeFence)
			t.Error("the launcher is told of the same fence twice")
		}
		r.fenced(wire.Fence{Name: "f"})
		go post() // the name can be used again
		next[wire.Fence](t, frames, wire.TypeFence)
		r.end()
		synctest.Wait()
	})
}

func TestRelayGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, frames := relayPair(t)
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				key := fmt.Sprint("key", i)
				value, found, err := r.Get(t.Context(), key, getTime)
				check.That(t, err == nil && found == (i > 0) && string(value) == strings.Repeat(key, i),
					"%s: %q, %v, %v", key, value, found, err)
			})
		}
		var asked []wire.Get
		for range 3 {
			asked = append(asked, next[wire.Get](t, frames, wire.TypeGet))
		}
		for _, g := range asked { // answers come in any order, and once
			i := int(g.Key[3] - '0')
			v := wire.Value{ID: g.ID, Found: i > 0, Value: []byte(strings.Repeat(g.Key, i))}
			r.value(v)
			r.value(v)
		}
		r.value(wire.Value{ID: 1000})
		wg.Wait()
		check.That(t, len(r.gets) == 0, "%d questions are still open", len(r.gets))
	})
}

// The launcher does not hear of a rank that stopped waiting, so it never waits long at a time.
func TestRelayAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, frames := relayPair(t)
		go func() {
			for _, want := range []time.Duration{getTime, getTime, time.Second} {
				g := next[wire.Get](t, frames, wire.TypeGet)
				check.Equal(t, g.Wait, want, "asked to wait for")
				r.value(wire.Value{ID: g.ID, Found: g.Wait == time.Second})
			}
		}()
		_, found, err := r.Get(t.Context(), "k", 2*getTime+time.Second)
		check.That(t, found && err == nil, "found %v, %v", found, err)
	})
}

// TestRelayBoundsGets checks that abandoned requests for keys count until they are answered: the
// launcher ends hosts with too many.
func TestRelayBoundsGets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, w := io.Pipe()
		defer out.Close()
		r := newRelay(wire.NewWriter(w), 1, 1)
		frames := wire.NewReader(out)
		asked := make(chan uint64, 2*maxGets)
		go func() {
			for {
				f, err := frames.Next()
				if err != nil {
					return
				}
				var g wire.Get
				if err := f.Decode(&g); err != nil || f.Type != wire.TypeGet {
					t.Errorf("sent %s: %v", f.Type, err)
					return
				}
				asked <- g.ID
			}
		}()
		gaveUp, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range maxGets {
			_, _, err := r.Get(gaveUp, "k", getTime)
			must.That(t, errors.Is(err, context.Canceled), "question %d: %v", i, err)
		}
		check.Error(r.Get(gaveUp, "k", getTime)).Is(t, errGets, "one question too many")
		r.value(wire.Value{ID: <-asked})
		check.Error(r.Get(gaveUp, "k", getTime)).Is(t, context.Canceled, "a question that has room again")
	})
}

func TestRelayPutAndLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, frames := relayPair(t)
		go func() {
			check.OK(t, r.Put("k", []byte{0, 255}))
			r.Lost(2, 0, "reset")
			r.Left(2, 1, "closed")
			r.AbortJob(2, 2, "no state")
			r.Note(3, kv.Note{Text: "waits", Stall: true})
		}()
		p := next[wire.Put](t, frames, wire.TypePut)
		check.That(t, p.Key == "k" && string(p.Value) == "\x00\xff", "put %+v", p)
		check.Equal(t, next[wire.Lost](t, frames, wire.TypeLost), (wire.Lost{By: 2, Rank: 0, Cause: "reset"}), "lost")
		if l := next[wire.Lost](t, frames, wire.TypeLost); l != (wire.Lost{
			By:    2,
			Rank:  1,
			Cause: "closed",
			Left:  true,
		}) {
			t.Errorf("left %+v", l)
		}
		check.Equal(t, next[wire.Lost](t, frames, wire.TypeLost), (wire.Lost{
			By:    2,
			Rank:  2,
			Cause: "no state",
			Abort: true,
		}), "abort")
		check.Equal(t, next[wire.Note](t, frames, wire.TypeNote), (wire.Note{By: 3, Text: "waits", Stall: true}),
			"note")
		check.Error(r.Put(strings.Repeat("k", kv.MaxKey+1), nil)).Any(t, "no bound on keys")
	})
}

// TestRelayLetsWaitersGo checks the three ways in which a wait is called off.
func TestRelayLetsWaitersGo(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(r *relay, cancel context.CancelFunc)
		want error
	}{
		"the job is aborted": {func(r *relay, _ context.CancelFunc) { r.abort(wire.Abort{Rank: 1}) }, kv.ErrAborted},
		"the agent ends":     {func(r *relay, _ context.CancelFunc) { r.end() }, errEnded},
		"the rank hangs up":  {func(_ *relay, cancel context.CancelFunc) { cancel() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, frames := relayPair(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go io.Copy(io.Discard, readAll{frames})
				var wg sync.WaitGroup
				wg.Go(func() {
					check.Error(r.Fence(ctx, "f", 2, nil)).Is(t, tc.want, "fence")
				})
				wg.Go(func() {
					check.Error(r.Get(ctx, "k", time.Minute)).Is(t, tc.want, "get")
				})
				synctest.Wait()
				tc.do(r, cancel)
				wg.Wait()
			})
		})
	}
}

// readAll reads frames away.
type readAll struct{ frames *wire.Reader }

func (r readAll) Read([]byte) (int, error) {
	_, err := r.frames.Next()
	return 0, err
}

func TestRelayKeepsTheFirstAbort(t *testing.T) {
	r, _ := relayPair(t)
	select {
	case <-r.Aborted():
		t.Error("aborted from the start")
	default:
	}
	r.abort(wire.Abort{Rank: 1, Host: "h", Cause: "first"})
	r.abort(wire.Abort{Rank: 2, Host: "h", Cause: "second"})
	<-r.Aborted()
	want := `{"rank":1,"host":"h","cause":"first"}`
	check.Equal(t, string(r.AbortInfo()), want)
}

func TestRelaySaysThatTheLauncherIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		pr.Close()
		r := newRelay(wire.NewWriter(pw), 1, 1)
		check.Error(r.Fence(t.Context(), "f", 0, nil)).Is(t, io.ErrClosedPipe, "fence")
		_, _, err := r.Get(t.Context(), "k", 0)
		check.That(t, errors.Is(err, io.ErrClosedPipe) && len(r.gets) == 0, "get: %v, %d open", err, len(r.gets))
		check.Error(r.Put("k", nil)).Is(t, io.ErrClosedPipe, "put")
	})
}

// TestRelaySendsWhatTheLauncherTakes checks that a rank's key or value for which the launcher would
// fail the host is an error of the rank's.
func TestRelaySendsWhatTheLauncherTakes(t *testing.T) {
	var sent bytes.Buffer
	r := newRelay(wire.NewWriter(&sent), 1, 1)
	noText := strings.Repeat("\xff", kv.MaxKey/2) // longer in a message
	check.Error(r.Put("k", make([]byte, kv.MaxValue+1))).Says(t, "allowed", "a value of more than its bound")
	check.Error(r.Put(noText, nil)).Says(t, "allowed", "a key that is no text")
	_, _, err := r.Get(t.Context(), noText, 0)
	check.Error(err).Says(t, "allowed", "a request for a key that is no text")
	many := wire.SpawnRequest{Programs: []wire.SpawnProgram{{Argv: make(wire.Texts, 300_000)}}}
	check.Error(r.out.SendMessage(wire.TypeSpawn, many)).Says(t, "values", "a program of many words")
	check.Equal(t, sent.Len(), 0, "bytes for the launcher")
	check.OK(t, r.Put(noText[:kv.MaxKey/3], make([]byte, kv.MaxValue)))
	m := next[wire.Put](t, wire.NewReader(&sent), wire.TypePut)
	check.OK(t, kv.CheckSize(m.Key, m.Value))
}

// TestOpenFencesAreBounded checks that a rank which opens ever more fences gets an error: the
// launcher fails hosts that do.
func TestOpenFencesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay(wire.NewWriter(io.Discard), 1, 2)
		ctx, cancel := context.WithCancel(t.Context())
		var refused atomic.Int32
		for n := range 300 {
			go func() {
				if _, err := r.Fence(ctx, fmt.Sprint(n), 0, nil); !errors.Is(err, context.Canceled) {
					check.Error(err).Says(t, "too many fences")
					refused.Add(1)
				}
			}()
		}
		synctest.Wait()
		check.Equal(t, refused.Load(), 300-256, "refused fences")
		cancel()
	})
}

// TestRanksUseUpNoMoreThanTheirShare checks that ranks which fill the job's store or open fences
// get an error: the launcher fails the host for that.
func TestRanksUseUpNoMoreThanTheirShare(t *testing.T) {
	r := newRelay(wire.NewWriter(io.Discard), 4, 5)
	store := kv.NewStore()
	value := make([]byte, kv.MaxValue)
	var err error
	for n := 0; n < 256 && err == nil; n++ {
		if err = r.Put(fmt.Sprint(n), value); err == nil {
			must.OK(t, store.Put("h", fmt.Sprint(n), value))
		}
	}
	check.Error(err).Says(t, "no more room in the job's store")
	check.OK(t, r.Put("0", nil), "a value that frees room")
	check.OK(t, r.Put("new", value[1:]), "room again")

	launchers := kv.NewFences(5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	values := map[int][]byte{}
	for rank := range 4 {
		values[rank] = value[:kv.MaxFence]
	}
	for n := 0; n < 256; n++ {
		if _, err = r.FenceAll(ctx, fmt.Sprint(n), values); !errors.Is(err, context.Canceled) {
			break
		}
		must.Get(launchers.AddBy("h", fmt.Sprint(n), values))(t)
	}
	check.Error(err).Says(t, "too many fences")
}
