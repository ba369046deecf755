package boot_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring/internal/boot"
)

func memberClient(t *testing.T, m *ringtest.Member) *boot.Client {
	member, _, err := rankenv.FromEnviron(ringtest.Lookup(m.Environ()))
	must.OK(t, err)
	c := boot.NewClient(member.Agent, member.Token)
	t.Cleanup(c.Close)
	return c
}

func TestEpochs(t *testing.T) {
	ctx := testContext(t)
	w := ringtest.NewWorld(t, 2)
	clients := []*boot.Client{memberClient(t, w.Add("host0")), memberClient(t, w.Add("host1"))}
	for epoch := 1; epoch <= 2; epoch++ {
		err := ringtest.Each(2, func(i int) error {
			job, err := clients[i].Park(ctx, epoch-1)
			if err == nil && (job.ID != w.Job || job.Epoch != epoch || job.Rank != i || job.Size != 2 ||
				len(job.Key) != boot.KeySize ||
				job.LocalSize != 1 || job.CrossRank != i || job.CrossSize != 2 || len(job.Addrs) != 1) {
				t.Errorf("let into %+v", job)
			}
			if err == nil {
				err = clients[i].Joined(ctx)
			}
			return err
		})
		must.That(t, err == nil && w.Joined() == 2, "%d have joined, %v", w.Joined(), err)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		check.That(t, !clients[0].WatchInterrupt(short, epoch), "interrupted for no reason")
		cancel()
		w.Interrupt()
		check.That(t, clients[0].WatchInterrupt(ctx, epoch) && (epoch != 2 || clients[1].WatchInterrupt(ctx, 1)),
			"not interrupted, or not in an epoch that is over")
	}
	w.End("too few slots")
	a := clients[1].WatchAbort(ctx)
	check.That(t, a != nil && a.Cause == "too few slots", "abort is %v", a)
	check.Error(clients[0].Park(ctx, 2)).As(t, new(*boot.Abort), "after the last epoch")
}

// An agent that lets a rank into an epoch that it was in, or as a rank that cannot be, is not
// believed.
func TestBadEpochs(t *testing.T) {
	const key = `"key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="`
	for _, body := range []string{`{"epoch":3,"rank":0,"size":1,` + key + `}`, `{"epoch":4,"rank":1,"size":1,` + key +
		`}`,
		`{"epoch":4,"rank":-1,"size":1,` + key + `}`, `{"epoch":4,"rank":0,"size":1}`, "hello"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(body))
		}))
		c := boot.NewClient(server.Listener.Addr().String(), "t")
		job, err := c.Park(testContext(t), 3)
		check.That(t, err != nil, "%s: let into %+v", body, job)
		c.Close()
		server.Close()
	}
	c := boot.NewClient("127.0.0.1:1", "t")
	check.That(t, !c.WatchInterrupt(testContext(t), 1) && c.Joined(testContext(t)) != nil,
		"an agent that is not there has interrupted, or heard")
}
