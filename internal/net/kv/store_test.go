package kv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// A host may hold as much as it leaves free, also when it takes over keys of others.
func TestStoreIsBounded(t *testing.T) {
	s := NewStore()
	s.limit = 10 * (entryCost + 4)
	for i := range 5 {
		must.OK(t, s.Put("big", fmt.Sprint("k", i), []byte("v2")))
	}
	check.Error(s.Put("big", "one more", nil)).Says(t, "full for this host (5 keys", "keys without values cost nothing")
	check.OK(t, s.Put("big", "k1", []byte("v3")), "over an old value")
	check.OK(t, s.Put("small", "k5", []byte("v2")), "of another host")
	check.OK(t, s.Put("big", "k1", []byte("v")), "over an own value that is larger, though less is free than it holds")
	check.OK(t, s.Put("small", "k6", []byte("v2")))
	check.Error(s.Put("big", "k5", []byte("v2"))).Says(t, "full for this host", "it took over another's key")
	check.OK(t, s.Put("small", "k0", []byte("v2")), "it took over a key")
	check.That(t, s.held["big"] == 4*(entryCost+4)-1 && s.held["small"] == 3*(entryCost+4), "they hold %v", s.held)
	s.DeleteFunc(func(string) bool { return true })
	check.That(t, s.bytes == 0 && s.held["big"] == 0 && s.held["small"] == 0, "the empty store holds %v", s.held)
	check.That(t, NewStore().Put("big", strings.Repeat("k", MaxKey+1), nil) != nil, "no bound on keys")
}

// Hosts ask and answer in their own name. An answer counts against the host that has asked, until
// it has got it, and is empty when that host holds too much.
func TestAnswersCountAgainstWhoAsks(t *testing.T) {
	s := NewStore()
	good := Host{Name: "good", Index: 0}
	asks := Host{Name: "asks", Index: 1}
	value := make([]byte, MaxValue)
	for n := range 100 {
		must.OK(t, s.PutBy(asks, QuestionKey(0, 1, n), nil))
		must.OK(t, s.PutBy(good, AnswerKey(0, 1, n), value))
	}
	check.That(t, s.held["good"] == 0 && s.held["asks"] > 80<<20 && s.held["asks"] <= 86<<20, "they hold %v", s.held)
	last, found := s.Get(t.Context(), AnswerKey(0, 1, 99))
	check.That(t, found && len(last) == 0, "the last answer has %d bytes", len(last))
	check.OK(t, s.PutBy(asks, "own", value), "of the half that is left")
	for n := range 100 {
		s.Got(0, AnswerKey(0, 1, n)) // which has not asked
		s.Got(1, AnswerKey(0, 1, n))
	}
	s.Got(1, "own")
	check.Equal(t, s.held["asks"], costOf("own", value)+costOf(AskerKey(0, 1), []byte("1")),
		"the host that has got its answers holds")
	check.OK(t, s.PutBy(good, AnswerKey(0, 1, 100), value), "to no question")
	check.That(t, s.held["good"] == 0 && len(s.values) == 2, "it is kept")
	for _, key := range []string{QuestionKey(0, 2, 1), AnswerKey(0, 2, 1), questions + "0/1", answers + "x/1/1",
		questions, answers + "1/1/1/1", questions + "0/x/1"} {
		check.Error(s.PutBy(asks, key, nil)).Says(t, "of another host", key)
	}
	check.Error(s.PutBy(good, AnswerKey(0, 1, 1), make([]byte, MaxValue+1))).Any(t, "no bound on answers")
	check.Error(s.PutBy(asks, QuestionKey(0, 1, 1), make([]byte, MaxQuestion+1))).Says(t, "a question of 1025 bytes")
}

// What hosts, and ranks of epochs, say of themselves is put by nobody else. What a rank says in an
// epoch that is over is not kept, and no error: its host may not know that another has begun.
func TestHostsPutTheirOwnNames(t *testing.T) {
	s := NewStore()
	host := Host{
		Name:  "h",
		Index: 1,
		Epoch: 2,
		Owns:  func(rank int) bool { return rank == 4 || rank == 5 },
	}
	for _, key := range []string{MeetingKey(1, "f/3"), WorldKey(1, 7, "pmi/2", 0) + "/0", RankKey(2, 4, "ring/stall"),
		RankKey(2, 5, "a/b"), "gloo/0/global/1", "epoch/2/gloo/0/global/1", "rank/0/a", "own"} {
		must.OK(t, s.PutBy(host, key, []byte("v")), key)
		value, found := s.Get(t.Context(), key)
		check.That(t, found && string(value) == "v", "%s is %q", key, value)
	}
	kept := len(s.values)
	for _, key := range []string{MeetingKey(0, "f/3"), WorldKey(0, 7, "pmi/2", 0) + "/0", "world/", "world/1x/7",
		"pmix/meeting/x", RankKey(2, 3, "ring/stall"), RankKey(2, 45, "ring/stall"), "epoch/2/rank/",
		"epoch/2/rank/x4/a", "epoch/2/rank/-1/a"} {
		check.Error(s.PutBy(host, key, nil)).Says(t, "of another host", key)
	}
	for _, key := range []string{RankKey(1, 4, "a"), RankKey(3, 0, "a"), "epoch/x/rank/4/a", "epoch//rank/0/a"} {
		check.OK(t, s.PutBy(host, key, nil), key)
	}
	check.Equal(t, len(s.values), kept, "keys of the store")
	s.DeleteFunc(func(key string) bool { return IsOver(key, 3) })
	check.Equal(t, len(s.values), kept-3, "keys when the epoch is over")
}

// A host learns which others ask it, each once, and no host says so itself.
func TestHostsLearnWhoAsks(t *testing.T) {
	s := NewStore()
	for _, by := range []int{7, 7, 3, 7} {
		for n := range 3 {
			must.OK(t, s.PutBy(Host{Name: "h", Index: by}, QuestionKey(0, by, n), nil))
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for n, want := range []string{"", "7", "3", ""} {
		got, _ := s.Get(ended, AskerKey(0, n))
		check.Equal(t, string(got), want, n)
	}
	check.Error(s.PutBy(Host{Name: "h", Index: 3}, AskerKey(0, 3), []byte("3"))).Says(t, "the store's own key")
}

// Whoever asks for keys that never come leaves nothing behind.
func TestStoreForgetsWaits(t *testing.T) {
	s := NewStore()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() { s.Get(ctx, fmt.Sprint("never", i%10)) })
	}
	must.Until(t, "ten waits", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.waits) == 10
	})
	cancel()
	wg.Wait()
	check.That(t, len(s.waits) == 0, "%d waits are kept", len(s.waits))
}

func TestGatherIsBounded(t *testing.T) {
	g := NewFences(2)
	for i := range maxOpen / 2 {
		must.Get(g.Add(fmt.Sprint(i), map[int][]byte{0: nil}))(t)
	}
	var full *FullError
	_, err := g.Add("one more", map[int][]byte{0: nil})
	check.That(t, errors.As(err, &full) && full.By == "rank 0", "no bound on open fences: %v", err)
	for i := range maxOpen / 4 { // member 1 is not failed for member 0
		must.Get(g.Add(fmt.Sprint("other", i), map[int][]byte{1: nil}))(t)
	}
	_, err = g.Add("one more", map[int][]byte{1: nil})
	check.That(t, errors.As(err, &full) && full.By == "rank 1", "no bound on open fences: %v", err)
	must.Get(g.Add("0", map[int][]byte{1: nil}))(t) // complete
	must.Get(g.Add("0", map[int][]byte{1: nil}))(t)
	check.Error(g.Add("nobody", nil)).Any(t, "a fence without a rank")
	g = NewFences(2)
	check.Error(g.Add("a", map[int][]byte{0: make([]byte, MaxFence+1)})).Any(t, "no bound on a value")
	check.Error(g.Add(strings.Repeat("n", MaxKey+1), nil)).Any(t, "no bound on a name")
	value := make([]byte, MaxFence)
	err = nil
	n := 0
	for ; err == nil && n < maxOpen; n++ {
		_, err = g.Add(fmt.Sprint(n), map[int][]byte{0: value, 1: nil}) // complete: forgotten
	}
	must.That(t, err == nil && g.bytes == 0, "complete fences still count: %d bytes, %v", g.bytes, err)
	big := map[int][]byte{}
	for m := range 40 {
		big[m] = value
	}
	g = NewFences(41)
	for n = 0; err == nil && n < maxOpen; n++ {
		_, err = g.Add(fmt.Sprint(n), big)
	}
	check.That(t, errors.As(err, &full) && full.By == "rank 0" && full.Bytes > 0, "no bound on bytes: %v", err)
	for n = range 100 { // member 40 is not failed for the others
		must.Get(g.Add(fmt.Sprint("other", n), map[int][]byte{40: value}))(t)
	}
	must.That(t, g.bytes > maxFenceBytes/2 && g.bytes <= maxFenceBytes, "%d bytes in open fences", g.bytes)
	for n = range full.Opened { // complete: their bytes are free
		must.Get(g.Add(fmt.Sprint(n), map[int][]byte{40: value}))(t)
	}
	check.That(t, g.held["rank 0"] == 0 && g.held["rank 40"] == g.bytes, "after the ends they hold %v", g.held)
}
