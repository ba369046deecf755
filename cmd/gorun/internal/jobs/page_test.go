package jobs

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/admit"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/internal/test/browser"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// offered is the page of a job, and its address.
func offered(t *testing.T) (p *page, url string) {
	t.Helper()
	p = newPage(control.Job{
		ID:      "g7k2",
		Name:    "train",
		Program: []string{"./train"},
		Size:    2,
		Hosts:   []control.Host{{Host: "f1", Ranks: []int{0, 1}}},
		Began:   time.Now(),
	})
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := admit.NewServer(p)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return p, "http://" + l.Addr().String() + p.path
}

// add adds a sample of the job's second second.
func (p *page) add(second int, memory int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live.Add(watch.Sample{
		At:      p.live.Run.Began.Add(time.Duration(second) * time.Second),
		Seconds: 1,
		Size:    2,
		Ranks:   []watch.Rank{{State: "R", CPU: 1, Memory: memory}, {Rank: 1, State: "R", CPU: .5, Memory: 1 << 20}},
		Hosts:   []watch.Host{{Host: "f1", CPUs: 4, CPU: 2, Memory: 100, Used: 10}},
	})
}

func TestLivePageHasASecretAddress(t *testing.T) {
	p, url := offered(t)
	p.add(1, 5<<20)
	base := strings.TrimSuffix(url, p.path)
	for _, c := range []struct {
		method, url string
		want        int
	}{
		{http.MethodGet, url, http.StatusOK}, {http.MethodPost, url, http.StatusNotFound},
		{http.MethodGet, base, http.StatusNotFound}, {http.MethodGet, base + "/", http.StatusNotFound},
		{http.MethodGet, url + "x", http.StatusNotFound}, {http.MethodGet, url[:len(url)-2], http.StatusNotFound},
	} {
		request := must.Get(http.NewRequestWithContext(t.Context(), c.method, c.url, nil))(t)
		answer := must.Get(http.DefaultClient.Do(request))(t)
		text := must.Get(io.ReadAll(answer.Body))(t)
		answer.Body.Close()
		check.Equal(t, answer.StatusCode, c.want, c.method, c.url)
		check.Equal(t, strings.Contains(string(text), "train (g7k2)"), c.want == http.StatusOK, c.method, c.url)
	}
}

// A browser shows what changes, and keeps what its user has sorted and zoomed.
func TestBrowserFollowsAJob(t *testing.T) {
	p, url := offered(t)
	for second := range 5 {
		p.add(second+1, 5<<20)
	}
	tab := browser.Open(t, url)
	check.Equal(t, tab.Eval(`document.querySelector('.card dd').textContent`), `"running"`)
	tab.Eval(`document.querySelector('[aria-label=Ranks] th:nth-child(4) button').click()`)
	tab.Eval(`plots[0].u.setScale('x', {min: 1, max: 3})`)
	p.add(6, 7<<20)
	tab.Until(`document.querySelector('.cards').textContent.includes('7 MiB')`)
	check.Equal(t, tab.Eval(`document.querySelector('[aria-label=Ranks] tbody').rows[0].cells[0].textContent`), `"1"`)
	check.Equal(t, tab.Eval(`plots[0].u.scales.x.max + ' ' + plots[0].u.data[0].at(-1)`), `"3 6"`)
	p.mu.Lock()
	p.live.Events = nil
	p.mu.Unlock()
	code := 3
	p.end(control.Job{Ended: p.live.Run.Began.Add(7 * time.Second), Code: &code, Cause: "rank 1 failed"})
	tab.Until(`document.querySelector('.card dd').textContent == 'exit code 3'`)
	tab.Until(fmt.Sprintf("document.body.textContent.includes(%q)", "rank 1 failed"))
	check.Equal(t, tab.Eval(`document.querySelectorAll('.canvas canvas').length == plots.length`), "true")
	check.Equal(t, tab.Eval(`document.body.className`), `""`)
	tab.Shows("live")
}
