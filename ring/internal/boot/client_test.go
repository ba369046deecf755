package boot_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring/internal/boot"
)

func client(t *testing.T, d *ringtest.Job, rank int) *boot.Client {
	identity := d.Rank(rank, "127.0.0.1")
	c := boot.NewClient(identity.Agent, identity.Token)
	t.Cleanup(c.Close)
	return c
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestJob(t *testing.T) {
	d := ringtest.NewJob(t, 3)
	job := must.Get(client(t, d, 2).Job(testContext(t)))(t)
	check.That(t, job.ID == d.ID && job.Rank == 2 && job.Size == 3 && string(job.Key) == string(d.Key),
		"job is %+v", job)
	check.Error(client(t, d, 3).Job(testContext(t))).Says(t, "token", "unknown token")
}

func TestFence(t *testing.T) {
	d := ringtest.NewJob(t, 3)
	ctx := testContext(t)
	clients := []*boot.Client{client(t, d, 0), client(t, d, 1), client(t, d, 2)}
	values := [][]byte{[]byte("a"), {}, {0, 0xff}}
	ringtest.All(t, 3, func(rank int) error {
		got, err := clients[rank].Fence(ctx, "ring/0/a b%", values[rank])
		if err != nil {
			return err
		}
		for i, v := range values {
			if string(got[i]) != string(v) {
				return errors.New("wrong value of a rank")
			}
		}
		return nil
	})
	check.Error(clients[0].Fence(ctx, "ring/0/a b%", nil)).Says(t, "already", "same fence again")
	d.Abort(ringtest.Abort{Rank: 1, Host: "f1", Cause: "exit code 1"})
	abort := new(boot.Abort)
	_, err := clients[0].Fence(ctx, "other", nil)
	check.That(t, errors.As(err, &abort) && abort.Rank == 1 && abort.Host == "f1", "fence of an aborted job: %v", err)
}

func TestWatchAbort(t *testing.T) {
	d := ringtest.NewJob(t, 2)
	ctx := testContext(t)
	c := client(t, d, 0)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	a := c.WatchAbort(ended)
	check.That(t, a == nil, "abort %v, but it was the watch that ended", a)
	must.OK(t, client(t, d, 1).Lost(ctx, 0, "connection closed"))
	if a := c.WatchAbort(ctx); a == nil || a.Rank != 0 || a.Host != ringtest.Host || a.Cause != "connection closed" {
		t.Errorf("abort is %v", a)
	}
	d.Close()
	a = c.WatchAbort(ctx)
	check.That(t, a != nil && a.Rank == -1, "abort is %v, want one by nobody: the agent is gone", a)
}

func TestBadAnswers(t *testing.T) {
	for name, body := range map[string]string{"no json": "hello", "short key": `{"job":"j","key":"AAAA"}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(body))
		}))
		c := boot.NewClient(server.Listener.Addr().String(), "t")
		check.Error(c.Job(testContext(t))).Any(t, name, "taken for a job")
		a := c.WatchAbort(testContext(t))
		check.That(t, a != nil && a.Rank == -1, "%s: abort is %v", name, a)
		c.Close()
		server.Close()
	}
}

// A rank's report of a loss may quote other ranks, such as the many addresses at which one cannot
// be reached. The agent takes such a report, or this rank would count as the one that failed.
func TestReportsFit(t *testing.T) {
	d := ringtest.NewJob(t, 2)
	ctx := testContext(t)
	c := client(t, d, 0)
	for _, piece := range []string{"at 10.0.0.1:4711: connect: connection refused; ", "\x01", "\xff", "é", "<"} {
		long := strings.Repeat(piece, 5000)
		check.OK(t, c.Lost(ctx, 1, long), piece)
		check.OK(t, c.Left(ctx, 1, long), piece)
		check.OK(t, c.Note(ctx, long), piece)
		check.OK(t, c.Stall(ctx, long), piece)
	}
}
