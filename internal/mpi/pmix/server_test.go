package pmix

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

// helper plays gorun-pmix for the server of one host.
type helper struct {
	net.Conn
	t       *testing.T
	server  *Server
	aborted chan [2]int
	spawned chan []Program
	broken  chan error
	refused chan string
}

// startHelper opens a server whose helper first sends greeting.
func startHelper(t *testing.T, s Store, greeting frame) (*helper, error) {
	t.Helper()
	h := &helper{
		t:       t,
		aborted: make(chan [2]int, 1),
		spawned: make(chan []Program, 1),
		broken:  make(chan error, 1),
		refused: make(chan string, 1),
	}
	server, err := Open(Options{
		Library: "/lib/libpmix.so.2",
		Store:   s,
		Start: func(path string, argv, _ []string, files []*os.File) error {
			check.That(t, path == "/proc/self/fd/4" && slices.Equal(argv, []string{"gorun-pmix", "/lib/libpmix.so.2"}),
				"it started %s %q", path, argv)
			var err error
			if h.Conn, err = net.FileConn(files[3]); err == nil && greeting != nil {
				err = greeting.send(h)
			} else if err == nil {
				err = h.Conn.Close()
			}
			return err
		},
		Aborted: func(rank, code int) { h.aborted <- [2]int{rank, code} },
		Spawn: func(ctx context.Context, rank int, programs []Program) (string, error) {
			h.spawned <- programs
			if len(programs) > 1 {
				return "", errors.New("refused")
			}
			return "j_1", h.server.Add(ctx, spawned(rank, programs[0].Ranks))
		},
		Broken:  func(err error) { h.broken <- err },
		Refused: func(_ int, why string) { h.refused <- why },
	})
	h.server = server
	return h, err
}

func (h *helper) send(k kind, numbers []int, texts ...string) {
	h.t.Helper()
	f := newFrame(k)
	for _, n := range numbers {
		f.number(n)
	}
	f.texts(texts...)
	h.put(f)
}

func (h *helper) put(f frame) {
	h.t.Helper()
	must.OK(h.t, f.send(h))
}

// next returns what the server sends, which must be of that kind.
func (h *helper) next(k kind) *message {
	h.t.Helper()
	m, err := receive(h)
	must.That(h.t, err == nil && m.kind == k, "a message of type %q, %v; want %q", m.kind, err, k)
	return &m
}

// begun returns what the helper is told of a world: its texts, and the rest of the message.
func (h *helper) begun() (m *message, texts []string) {
	h.t.Helper()
	m = h.next(begin)
	for range 6 {
		texts = append(texts, string(m.text()))
	}
	return m, texts
}

// answered returns the answer to a request.
func (h *helper) answered(id int) (status, string) {
	h.t.Helper()
	m := h.next(answer)
	must.Equal(h.t, m.number(), id, "an answer to")
	return status(m.number()), string(m.text())
}

// spawned is a world of which even ranks are on host a.
func spawned(by, ranks int) World {
	w := World{
		Job:      "j_1",
		Number:   1,
		By:       by,
		Programs: make([]int, ranks),
	}
	for i := range ranks {
		w.Numbers = append(w.Numbers, 10+2*i)
		w.HostOf = append(w.HostOf, i%2)
	}
	return w
}

// pair is a job of four ranks: 0 and 2 on host a, 1 and 3 on host b.
func pair(t *testing.T) [2]*helper {
	t.Helper()
	shared := fake.NewStore(4)
	var helpers [2]*helper
	for host := range helpers {
		greeting := newFrame(loaded)
		greeting.texts("5.0")
		h := must.Get(startHelper(t, shared.Of(host), greeting))(t)
		t.Cleanup(func() { h.server.Close(); h.Conn.Close() })
		begun := make(chan error, 1)
		go func() {
			begun <- h.server.Begin(Layout{
				Job:      "j",
				Folder:   "/f",
				Hosts:    []string{"a", "b"},
				Host:     host,
				HostOf:   []int{0, 1, 0, 1},
				Programs: []int{0, 0, 1, 1},
			})
		}()
		m, texts := h.begun()
		if want := []string{"j", []string{"a", "b"}[host], "/f", "a,b", "0,2;1,3",
			[]string{"0,2", "1,3"}[host]}; !slices.Equal(texts, want) {
			t.Errorf("the job is %q, want %q", texts, want)
		}
		var numbers []int
		for len(m.rest) > 0 {
			numbers = append(numbers, m.number())
		}
		want := []int{0, 0, 0, 4, host, 4, 2, 2, 2, host, host + 2, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 1, 1, 1}
		check.That(t, slices.Equal(numbers, want), "the job is %v, want %v", numbers, want)
		h.send(environment, []int{0, host}, "A=1\x00B=\x00")
		h.send(environment, []int{0, host + 2}, "A=2\x00")
		h.send(ready, nil)
		must.OK(t, <-begun)
		check.Slice(t, h.server.Environ(host), []string{"A=1", "B="}, "environment")
		helpers[host] = h
	}
	return helpers
}

// A fence joins the data of hosts, in their order, however long it is.
func TestFence(t *testing.T) {
	helpers := pair(t)
	for _, data := range [][2]string{{"first", "second"}, {"", "x"}, {strings.Repeat("a", kv.MaxFence+5), "b"}} {
		for host, h := range helpers {
			h.send(fence, []int{7}, data[host])
		}
		for _, h := range helpers {
			if s, got := h.answered(7); s != done || got != data[0]+data[1] {
				t.Errorf("status %d, %d bytes, want %d", s, len(got), len(data[0])+len(data[1]))
			}
		}
	}
	helpers[0].send(fence, []int{8}, strings.Repeat("a", 2*kv.MaxFence+1))
	helpers[1].send(fence, []int{8}, "b")
	s, _ := helpers[0].answered(8)
	check.Equal(t, s, broken, "too much data: status")
	why := <-helpers[0].refused
	check.That(t, strings.Contains(why, "bring 131073 bytes"), "%s", why)
	s, got := helpers[1].answered(8)
	check.That(t, s == done && got == "b", "beside too much data: status %d, %q", s, got)
}

// Data of a rank elsewhere is asked for at its host.
func TestFetch(t *testing.T) {
	helpers := pair(t)
	for n, tt := range []struct {
		item string
		good int
		data string
		want status
	}{{"", 0, "three", done}, {"address", 0, "and more", done}, {"address", 1, "", notFound}} {
		helpers[0].send(fetch, []int{9 + n, 0, 3}, tt.item)
		m := helpers[1].next(want)
		id := m.number()
		world := m.number()
		rank := m.number()
		item := string(m.text())
		check.That(t, world == 0 && rank == 3 && item == tt.item, "host b is asked for %q of rank %d", item, rank)
		helpers[1].send(held, []int{id, tt.good}, tt.data)
		s, got := helpers[0].answered(9 + n)
		check.That(t, s == tt.want && got == tt.data, "status %d, %q", s, got)
	}
	helpers[0].send(fetch, []int{12, 0, 3}, "")
	helpers[1].send(held, []int{helpers[1].next(want).number(), 0}, strings.Repeat("x", kv.MaxValue+1))
	s, _ := helpers[0].answered(12)
	check.Equal(t, s, notFound, "more than the store takes: status")
	helpers[0].send(fetch, []int{13, 0, 3}, strings.Repeat("k", kv.MaxQuestion))
	s, _ = helpers[0].answered(13)
	check.Equal(t, s, notFound, "a longer name than a host may ask for: status")
	helpers[0].send(fetch, []int{10, 0, 4}, "")
	s, _ = helpers[0].answered(10)
	check.Equal(t, s, notFound, "a rank that there is not: status")
}

// A host that asks without end has some questions open here at a time; the others wait in the
// store.
func TestQuestionsOfAHostAreBounded(t *testing.T) {
	helpers := pair(t)
	store := helpers[0].server.opts.Store
	for n := 1; n <= 2*maxAsked; n++ {
		must.OK(t, store.Put(kv.QuestionKey(1, 0, n), []byte("0 3 never")))
	}
	last := 0
	for range maxAsked {
		last = helpers[1].next(want).number()
	}
	// The next one comes after an answer.
	_ = helpers[1].SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	m, err := receive(helpers[1])
	check.That(t, err != nil, "one question more came before an answer: %q", m.kind)
	_ = helpers[1].SetReadDeadline(time.Time{})
	helpers[1].send(held, []int{last, 0}, "data")
	id := helpers[1].next(want).number()
	check.That(t, id == last+1, "question %d came after %d", id, last)
}

// counted counts the requests to a store.
type counted struct {
	fake.HostStore
	gets *atomic.Int32
}

func (c counted) Get(ctx context.Context, key string, wait time.Duration) ([]byte, bool, error) {
	c.gets.Add(1)
	return c.HostStore.Get(ctx, key, wait)
}

// A host waits for the questions of hosts that ask. If all waited for all others because one of
// them asks, the launcher would have the square of the hosts' number to remember.
func TestHostsAwaitThoseThatAsk(t *testing.T) {
	const hosts = 300
	store := fake.NewStore(hosts)
	var gets atomic.Int32
	greeting := newFrame(loaded)
	greeting.texts("5.0")
	h := must.Get(startHelper(t, counted{store.Of(0), &gets}, greeting))(t)
	defer h.Conn.Close()
	defer h.server.Close()
	layout := Layout{Job: "j", Folder: "/f", Programs: make([]int, hosts)}
	for host := range hosts {
		layout.Hosts = append(layout.Hosts, strconv.Itoa(host))
		layout.HostOf = append(layout.HostOf, host)
	}
	begun := make(chan error, 1)
	go func() { begun <- h.server.Begin(layout) }()
	h.next(begin)
	h.send(environment, []int{0, 0}, "A=1\x00")
	h.send(ready, nil)
	must.OK(t, <-begun)
	must.OK(t, store.Of(7).Put(kv.QuestionKey(0, 7, 1), []byte("0 0 address")))
	h.next(want)
	check.That(t, gets.Load() <= 4, "%d keys are awaited because one of %d hosts asks", gets.Load(), hosts)
}

func TestNames(t *testing.T) {
	helpers := pair(t)
	a := helpers[0]
	b := helpers[1]
	ask := func(h *helper, k kind, numbers []int, texts ...string) (status, string) {
		t.Helper()
		h.send(k, append([]int{5}, numbers...), texts...)
		return h.answered(5)
	}
	text := func(values ...string) string {
		var f frame
		f.texts(values...)
		return string(f)
	}
	for i, step := range []struct {
		h       *helper
		k       kind
		numbers []int
		texts   []string
		want    status
		answer  string
	}{
		{b, lookup, []int{0, 1}, []string{"ocean"}, done, text("")},
		{a, unpublish, []int{1}, []string{"ocean"}, notFound, ""},
		{a, publish, []int{1}, []string{"ocean", "port"}, done, ""},
		{b, publish, []int{1}, []string{"ocean", "other"}, duplicate, ""},
		{b, lookup, []int{0, 2}, []string{"ocean", "sea"}, done, text("port", "")},
		{b, unpublish, []int{1}, []string{"ocean"}, done, ""},
		{a, lookup, []int{0, 1}, []string{"ocean"}, done, text("")},
	} {
		if s, got := ask(step.h, step.k, step.numbers, step.texts...); s != step.want || got != step.answer {
			t.Errorf("step %d: status %d, %q, want %d, %q", i, s, got, step.want, step.answer)
		}
	}
	// A look-up can wait for a name.
	b.send(lookup, []int{6, 60, 1}, "late")
	ask(a, publish, []int{1}, "late", "here")
	s, got := b.answered(6)
	check.That(t, s == done && got == text("here"), "status %d, %q", s, got)
}

func TestAbortAndEnds(t *testing.T) {
	h := pair(t)[0]
	h.send(entered, []int{0, 0})
	h.send(abort, []int{7, 0, 0, -3}, "why")
	check.Equal(t, <-h.aborted, [2]int{0, -3}, "aborted")
	if m := h.next(answer); m.number() != 7 || m.number() != 0 {
		t.Error("the rank that aborts is not answered")
	}
	// Word that a rank has left MPI may come just before its end is noticed.
	inside := make(chan bool)
	go func() { inside <- h.server.Inside(0) }()
	m := h.next(echo)
	h.send(left, []int{0, 0})
	h.send(echo, []int{m.number()})
	check.That(t, !<-inside, "rank 0 is inside after it has left")
	go func() { inside <- h.server.Inside(2) }()
	h.send(echo, []int{h.next(echo).number()})
	check.That(t, !<-inside, "rank 2 is inside before it has entered")
}

// A rank that ends because the helper has is not reported before the helper, or it would be the
// one that has failed.
func TestEndOfTheHelperIsReportedFirst(t *testing.T) {
	h := pair(t)[0]
	ended := make(chan bool)
	go func() { ended <- h.server.Inside(2) }()
	h.next(echo)
	h.broken <- nil // the next report waits until this one is taken
	h.Conn.Close()
	select {
	case <-ended:
		t.Error("the rank's end came before the helper's")
	case <-time.After(100 * time.Millisecond):
		<-h.broken
		check.Error(nil, <-h.broken).Is(t, errEnded)
		<-ended
	}
}

// A rank may stop the helper, with SIGSTOP, or by a connection for which libpmix waits when the
// next world is described. The ends of the host's ranks are told then, and why.
func TestSilentHelperIsReported(t *testing.T) {
	h := pair(t)[0]
	h.server.silence = time.Millisecond
	check.That(t, !h.server.Inside(2), "rank 2 is inside before it has entered")
	err := <-h.broken
	check.That(t, strings.Contains(err.Error(), "has not answered"), "%v", err)
}

// request is a spawn request of rank 0 of a world: of each number of ranks one program.
func request(id, world int, ranks ...int) frame {
	f := newFrame(spawn)
	for _, n := range []int{id, world, 0, len(ranks)} {
		f.number(n)
	}
	for _, n := range ranks {
		f.number(n)
		f.texts("/w", "h")
		f.number(2)
		f.texts("prog", "x y")
		f.number(1)
		f.texts("A=1")
	}
	return f
}

// A world that is spawned is described to the helper, and its ranks have other numbers in the job.
func TestSpawnedWorld(t *testing.T) {
	h := pair(t)[0]
	h.put(request(7, 0, 3))
	want := []Program{{Argv: []string{"prog", "x y"}, Env: []string{"A=1"}, Dir: "/w", Host: "h",
		Ranks: 3}}
	got := <-h.spawned
	check.That(t, reflect.DeepEqual(got, want), "got %+v, want %+v", got, want)
	m, texts := h.begun()
	if want := []string{"j_1", "a", "/f", "a,b", "0,2;1", "0,2"}; !slices.Equal(texts, want) {
		t.Errorf("the world is %q, want %q", texts, want)
	}
	world := m.number()
	of := m.number()
	by := m.number()
	universe := m.number()
	check.That(t, world == 1 && of == 0 && by == 0 && universe == 3,
		"world %d of rank %d of world %d, universe %d", world, by, of, universe)
	h.send(environment, []int{1, 2}, "B=1\x00")
	h.send(ready, nil)
	s, name := h.answered(7)
	check.That(t, s == done && name == "j_1", "status %d, %q", s, name)
	check.Slice(t, h.server.Environ(14), []string{"B=1"}, "environment")
	h.send(abort, []int{8, 1, 2, 3}, "why")
	check.Equal(t, <-h.aborted, [2]int{14, 3}, "aborted")
	h.answered(8)
	// Its ranks spawn too. A request that is refused gets an answer.
	h.put(request(9, 1, 1, 1))
	<-h.spawned
	if s, _ := h.answered(9); s != broken {
		t.Errorf("a refused request: status %d", s)
	}
}

// gathering is a request for a meeting of ranks, as pairs of world and rank.
func gathering(id int, data string, of ...int) frame {
	f := newFrame(meet)
	f.number(id)
	f.texts(data)
	f.number(len(of) / 2)
	for _, n := range of {
		f.number(n)
	}
	return f
}

// Ranks of the job and of worlds meet, on the hosts where they are. A host may ask before it knows
// a world.
func TestMeetings(t *testing.T) {
	helpers := pair(t)
	add := func(h *helper) {
		added := make(chan error, 1)
		go func() { added <- h.server.Add(t.Context(), spawned(0, 2)) }()
		h.next(begin)
		h.send(ready, nil)
		must.OK(t, <-added)
	}
	add(helpers[0])
	long := strings.Repeat("a", kv.MaxValue+5)
	for _, data := range [][2]string{{"x", "y"}, {long, ""}} {
		for host, h := range helpers {
			h.put(gathering(7+host, data[host], 0, 0, 1, -1))
		}
		if data[0] == "x" {
			add(helpers[1])
		}
		for host, h := range helpers {
			if s, got := h.answered(7 + host); s != done || len(got) != len(data[0])+len(data[1]) ||
				!strings.HasPrefix(got, "x") && !strings.HasPrefix(got, "a") {
				t.Errorf("status %d, %d bytes, want %d", s, len(got), len(data[0])+len(data[1]))
			}
		}
	}
	// Those of one host wait for no other, and ranks that there are not cannot meet.
	for want, of := range map[status][]int{done: {0, 0, 1, 0}, broken: {0, 0, 0, 9}} {
		helpers[0].put(gathering(20, "z", of...))
		s, _ := helpers[0].answered(20)
		check.Equal(t, s, want, of, "status")
	}
	// Data of a spawned rank elsewhere is asked for at its host.
	helpers[0].send(fetch, []int{30, 1, 1}, "address")
	m := helpers[1].next(want)
	id := m.number()
	world := m.number()
	rank := m.number()
	if world != 1 || rank != 1 {
		t.Errorf("host b is asked for rank %d of world %d", rank, world)
	} else {
		helpers[1].send(held, []int{id, 0}, "here")
	}
	s, got := helpers[0].answered(30)
	check.That(t, s == done && got == "here", "status %d, %q", s, got)
}

// A helper that ends, or does not keep to the protocol, is reported once.
func TestBrokenHelper(t *testing.T) {
	for name, tt := range map[string]struct {
		does func(h *helper)
		want string
	}{
		"ends":            {func(h *helper) { h.Conn.Close() }, "EOF"},
		"says why":        {func(h *helper) { h.send(failed, nil, "no memory") }, "no memory"},
		"unknown message": {func(h *helper) { h.send('?', nil) }, "type '?'"},
		"short message":   {func(h *helper) { h.send(fence, nil) }, "too short"},
		"no size":         {func(h *helper) { _, _ = h.Write(make([]byte, 5)) }, "0 bytes"},
	} {
		h := pair(t)[0]
		tt.does(h)
		err := <-h.broken
		check.That(t, strings.Contains(err.Error(), tt.want), "%s: %v, want %q", name, err, tt.want)
	}
}

func TestHelperThatDoesNotStart(t *testing.T) {
	said := newFrame(failed)
	said.texts("libpmix.so.2: cannot open shared object file")
	check.Error(startHelper(t, nil, said)).Says(t, "cannot open")
	check.Error(startHelper(t, nil, nil)).Is(t, io.EOF)
}

func TestHostNames(t *testing.T) {
	l := Layout{Hosts: []string{"a", "a,b;c[1]", "a", ""}}
	want := []string{"a", "a_b_c_1_", "a-2", "-3"}
	check.Slice(t, l.names(), want)
}
