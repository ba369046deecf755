package services

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// elasticPair returns the relay of a process of an elastic job, and its frames.
func elasticPair(t *testing.T) (*epochs, *wire.Reader) {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { r.Close() })
	return newEpochs(newRelay(wire.NewWriter(w), 1, 1), wire.Job{ID: "j", Ranks: []wire.Rank{{Rank: 2}}}),
		wire.NewReader(r)
}

func TestEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, frames := elasticPair(t)
		var wg sync.WaitGroup
		park := func(left, want int) {
			wg.Go(func() {
				got, err := e.Park(t.Context(), left)
				check.That(t, err == nil && got.Epoch == want && got.Job == "j" && got.Location != nil,
					"park after %d = %+v, %v", left, got, err)
			})
		}
		park(0, 1)
		p := next[wire.Park](t, frames, wire.TypePark)
		check.Equal(t, p.Left, 0, "a new rank says that it left")
		e.begin(wire.Epoch{Number: 1, Rank: 2, Size: 3})
		wg.Wait()

		// Requests of the epoch end with it; a rank that has left asks again.
		aborted := e.Aborted()
		interrupted := e.Interrupted(1)
		failed := e.Failed(1)
		e.interrupt(wire.Interrupt{Epoch: 2}) // not this one
		e.abort(wire.Abort{Epoch: 2})
		select {
		case <-aborted:
			t.Error("aborted by another epoch's end")
		case <-interrupted:
			t.Error("interrupted in another epoch's name")
		case <-failed:
			t.Error("failed by another epoch's end")
		default:
		}
		e.interrupt(wire.Interrupt{Epoch: 1})
		e.interrupt(wire.Interrupt{Epoch: 1})
		<-interrupted
		e.abort(wire.Abort{Epoch: 1, Rank: 0, Cause: "it ended"})
		e.abort(wire.Abort{Epoch: 1, Rank: 1, Cause: "it ended, too"})
		<-aborted
		<-failed
		info := string(e.AbortInfo())
		check.That(t, strings.Contains(info, "it ended"), "abort says %s", info)
		wg.Go(func() {
			check.Error(e.Fence(t.Context(), "f", 2, nil)).Is(t, kv.ErrAborted, "a fence of the aborted epoch")
		})
		next[wire.Fence](t, frames, wire.TypeFence)
		wg.Wait()
		park(1, 2)
		park(1, 2)
		next[wire.Park](t, frames, wire.TypePark)
		next[wire.Park](t, frames, wire.TypePark)
		e.begin(wire.Epoch{Number: 2, Rank: 0, Size: 1})
		e.begin(wire.Epoch{Number: 1, Rank: 9, Size: 10}) // late
		wg.Wait()
		select {
		case <-e.Aborted():
			t.Error("the new epoch is aborted")
		case <-e.Interrupted(2):
			t.Error("the new epoch is interrupted")
		case <-e.Failed(2):
			t.Error("the new epoch has failed")
		case <-e.Failed(1):
			t.Error("an epoch that is over fails")
		case <-e.Interrupted(1): // over
		}

		// Values of another epoch's fence do not count.
		wg.Go(func() {
			got, err := e.Fence(t.Context(), "f", 0, []byte("a"))
			check.That(t, err == nil && len(got) == 1 && string(got[0]) == "b", "fence = %q, %v", got, err)
		})
		if f := next[wire.Fence](t, frames, wire.TypeFence); f.Epoch != 2 {
			t.Errorf("fence of epoch %d", f.Epoch)
		}
		e.fenced(wire.Fence{Epoch: 1, Name: "f", Values: map[int][]byte{0: []byte("old")}})
		e.fenced(wire.Fence{Epoch: 2, Name: "f", Values: map[int][]byte{0: []byte("b")}})
		wg.Wait()

		// The end of the job is the end of every wait.
		wg.Go(func() {
			check.Error(e.Park(t.Context(), 2)).Is(t, kv.ErrAborted, "park at the job's end")
		})
		next[wire.Park](t, frames, wire.TypePark)
		failed = e.Failed(2)
		e.abort(wire.Abort{Rank: -1, Cause: "gorun is gone"})
		wg.Wait()
		select {
		case <-failed:
			t.Error("the job's end is an epoch's")
		default:
		}
	})
}

// A request for a fence that was accepted in one epoch and arrives when the next has begun with
// other numbers is not forwarded: the launcher fails a host that posts for another's rank.
func TestFenceOfAnEpochThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := elasticPair(t)
		e.begin(wire.Epoch{Number: 1, Rank: 2, Size: 3})
		e.begin(wire.Epoch{Number: 2, Rank: 1, Size: 2})
		late := make(chan error, 1)
		go func() { _, err := e.Fence(t.Context(), "f", 2, nil); late <- err }()
		synctest.Wait()
		select {
		case err := <-late:
			check.That(t, errors.Is(err, kv.ErrAborted), "%v", err)
		default:
			t.Error("the launcher is told")
		}
		e.end()
	})
}

// So is what a rank says of itself: in the epoch that has begun its number may be another rank's.
func TestNamesOfARankInAnotherEpoch(t *testing.T) {
	var sent bytes.Buffer
	relay := newRelay(wire.NewWriter(&sent), 1, 1)
	e := newEpochs(relay, wire.Job{ID: "j", Epoch: 1, Ranks: []wire.Rank{{Rank: 2}}})
	check.Error(e.Put(kv.RankKey(1, 2, "a"), nil)).Is(t, kv.ErrAborted, "no epoch has begun")
	e.begin(wire.Epoch{Number: 2, Rank: 1, Size: 2})
	for _, key := range []string{kv.RankKey(1, 1, "a"), kv.RankKey(1, 2, "a"), kv.RankKey(2, 2, "a"),
		kv.RankKey(3, 1, "a")} {
		check.Error(e.Put(key, nil)).Is(t, kv.ErrAborted, key)
	}
	check.Equal(t, sent.Len(), 0, "bytes for the launcher")
	check.OK(t, e.Put(kv.RankKey(2, 1, "a"), nil))
	check.Equal(t, next[wire.Put](t, wire.NewReader(&sent), wire.TypePut).Key, kv.RankKey(2, 1, "a"))
	fixed := newRelay(wire.NewWriter(io.Discard), 2, 4)
	for rank := range 2 {
		check.OK(t, fixed.Put(kv.RankKey(0, rank, "a"), nil), "a job without epochs, rank", rank)
	}
}

// A request that waits for an epoch's abort gets a valid answer when the next epoch begins.
func TestAbortOfAnEpochThatIsOver(t *testing.T) {
	e, _ := elasticPair(t)
	e.begin(wire.Epoch{Number: 1, Rank: 2, Size: 3})
	aborted := e.Aborted()
	e.begin(wire.Epoch{Number: 2, Rank: 2, Size: 3})
	<-aborted
	var why wire.Abort
	err := json.Unmarshal(e.AbortInfo(), &why)
	check.That(t, err == nil && why.Rank == -1 && why.Cause != "", "it is told %q: %v", e.AbortInfo(), err)
}

// A rank that is slow to ask for its first epoch, which has begun without it, is heard all the
// same: once.
func TestEpochThatBeganBefore(t *testing.T) {
	e, frames := elasticPair(t)
	e.begin(wire.Epoch{Number: 1, Rank: 2, Size: 3})
	heard := make(chan int, 1)
	go func() { heard <- next[wire.Park](t, frames, wire.TypePark).Left }()
	for range 2 {
		got, err := e.Park(t.Context(), 0)
		check.That(t, err == nil && got.Epoch == 1, "park = %+v, %v", got, err)
	}
	check.Equal(t, <-heard, 0, "it says that it left")
}

// TestElasticServer has a rank go from one epoch to the next over HTTP.
func TestElasticServer(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	go func() { _, _ = io.Copy(io.Discard, r) }()
	relay := newRelay(wire.NewWriter(w), 1, 1)
	e := newEpochs(relay, wire.Job{ID: "j", Ranks: []wire.Rank{{}}})
	door := must.Get(kv.OpenServer(map[string]kv.JobInfo{"secret": {Job: "j"}}, e))(t)
	defer door.Close()
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		req := must.Get(http.NewRequestWithContext(t.Context(), method, "http://"+door.Addr()+"/v1/"+path,
			strings.NewReader(body)))(t)
		req.Header.Set("Authorization", "Bearer secret")
		resp := must.Get(http.DefaultClient.Do(req))(t)
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	for _, body := range []string{"", "{}", `{"left":-1}`, `{"left":"1"}`} {
		code, _ := ask("POST", "park", body)
		check.Equal(t, code, http.StatusBadRequest, "park", body, "answered")
	}
	if code, _ := ask("GET", "interrupt", ""); code != http.StatusBadRequest {
		t.Errorf("interrupt without an epoch answered %d", code)
	}
	e.begin(wire.Epoch{
		Number:    4,
		Rank:      1,
		Size:      2,
		LocalSize: 2,
		Nodes:     1,
		Addrs:     []string{"10.0.0.1"},
		Key:       []byte("k"),
	})
	code, text := ask("POST", "park", `{"left":0}`)
	want := `"epoch":4,"rank":1,"size":2,"key":"aw==","local_rank":0,"local_size":2`
	check.That(t, code == http.StatusOK && strings.Contains(text, want),
		"park answered %d %s, want %s in it", code, text, want)
	if _, text := ask("GET", "job", ""); !strings.Contains(text, `"epoch":4,"rank":1`) {
		t.Errorf("afterwards the job is %s", text)
	}
	e.interrupt(wire.Interrupt{Epoch: 4})
	code, text = ask("GET", "interrupt?epoch=4", "")
	check.That(t, code == http.StatusOK && strings.TrimSpace(text) == `{"epoch":4}`,
		"interrupt answered %d %s", code, text)
	if code, _ := ask("POST", "joined", ""); code != http.StatusNoContent {
		t.Errorf("joined answered %d", code)
	}
	relay.end()
	if code, _ := ask("POST", "park", `{"left":4}`); code != http.StatusServiceUnavailable {
		t.Errorf("park at the agent's end answered %d", code)
	}
}
