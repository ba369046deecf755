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
	job, err := client(t, d, 2).Job(testContext(t))
	must.OK(t, err)
	check.That(t, job.ID == d.ID && job.Rank == 2 && job.Size == 3 && string(job.Key) == string(d.Key),
		"job is %+v", job)
	if _, err := client(t, d, 3).Job(testContext(t)); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("unknown token: %v", err)
	}
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
	if _, err := clients[0].Fence(ctx, "ring/0/a b%", nil); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("same fence again: %v", err)
	}
	d.Abort(ringtest.Abort{Rank: 1, Host: "f1", Cause: "exit code 1"})
	abort := new(boot.Abort)
	if _, err := clients[0].Fence(ctx, "other", nil); !errors.As(err, &abort) || abort.Rank != 1 || abort.Host != "f1" {
		t.Errorf("fence of an aborted job: %v", err)
	}
}

func TestWatchAbort(t *testing.T) {
	d := ringtest.NewJob(t, 2)
	ctx := testContext(t)
	c := client(t, d, 0)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if a := c.WatchAbort(ended); a != nil {
		t.Errorf("abort %v, but it was the watch that ended", a)
	}
	must.OK(t, client(t, d, 1).Lost(ctx, 0, "connection closed"))
	if a := c.WatchAbort(ctx); a == nil || a.Rank != 0 || a.Host != ringtest.Host || a.Cause != "connection closed" {
		t.Errorf("abort is %v", a)
	}
	d.Close()
	if a := c.WatchAbort(ctx); a == nil || a.Rank != -1 {
		t.Errorf("abort is %v, want one by nobody: the agent is gone", a)
	}
}

func TestBadAnswers(t *testing.T) {
	for name, body := range map[string]string{"no json": "hello", "short key": `{"job":"j","key":"AAAA"}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(body))
		}))
		c := boot.NewClient(server.Listener.Addr().String(), "t")
		if _, err := c.Job(testContext(t)); err == nil {
			t.Errorf("%s: taken for a job", name)
		}
		if a := c.WatchAbort(testContext(t)); a == nil || a.Rank != -1 {
			t.Errorf("%s: abort is %v", name, a)
		}
		c.Close()
		server.Close()
	}
}
