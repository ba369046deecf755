package kv

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestGatherCompletesOnceAllAreIn(t *testing.T) {
	g := NewFences(3)
	if all, err := g.Add("a", map[int][]byte{0: []byte("x"), 2: []byte("z")}); all != nil || err != nil {
		t.Fatalf("two of three: %v, %v", all, err)
	}
	if all, err := g.Add("b", map[int][]byte{1: nil}); all != nil || err != nil {
		t.Fatalf("another name: %v, %v", all, err)
	}
	var twice *DuplicateError
	if _, err := g.Add("a", map[int][]byte{2: nil}); !errors.As(err, &twice) || twice.Member != 2 {
		t.Fatalf("second value: %v", err)
	}
	all, err := g.Add("a", map[int][]byte{1: []byte("y")})
	must.That(t, err == nil && len(all) == 3 && string(all[0])+string(all[1])+string(all[2]) == "xyz",
		"complete: %v, %v", all, err)
	all, err = g.Add("a", map[int][]byte{0: nil})
	check.That(t, all == nil && err == nil, "the name cannot be used again: %v, %v", all, err)
}

// What is deleted makes queue, and can be put again.
func TestStoreForgetsKeys(t *testing.T) {
	s := NewStore()
	s.limit = 3 * (entryCost + 10)
	for range 3 {
		for _, key := range []string{"old/key1", "new/key1"} {
			must.OK(t, s.Put(key, key, []byte("xy")))
		}
		s.DeleteFunc(func(key string) bool { return strings.HasPrefix(key, "old/") })
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, found := s.Get(ended, "old/key1")
		check.That(t, !found, "it is still there")
		if value, found := s.Get(ended, "new/key1"); !found || string(value) != "xy" {
			t.Errorf("another key: %q, %v", value, found)
		}
		check.OK(t, s.Put("other", "new/key2", []byte("xy")), "a full store takes no other")
		s.DeleteFunc(func(key string) bool { return key == "new/key2" })
	}
	s.DeleteFunc(func(string) bool { return true })
	check.That(t, s.bytes == 0, "an empty store of %d bytes", s.bytes)
}

// backend is a whole job's backend in this process.
type backend struct {
	mu      sync.Mutex
	gather  *Fences
	size    int
	waiting map[string]chan map[int][]byte
	store   *Store
	aborted chan struct{}
	lost    chan string
}

func newBackend(size int) *backend {
	return &backend{
		gather:  NewFences(size),
		size:    size,
		waiting: map[string]chan map[int][]byte{},
		store:   NewStore(),
		aborted: make(chan struct{}),
		lost:    make(chan string, 1),
	}
}

func (b *backend) Fence(ctx context.Context, name string, rank int, value []byte) ([][]byte, error) {
	b.mu.Lock()
	c := b.waiting[name]
	if c == nil {
		c = make(chan map[int][]byte, b.size)
		b.waiting[name] = c
	}
	all, err := b.gather.Add(name, map[int][]byte{rank: value})
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if all != nil {
		for range b.size {
			c <- all
		}
	}
	select {
	case all := <-c:
		values := make([][]byte, b.size)
		for r, v := range all {
			values[r] = v
		}
		return values, nil
	case <-b.aborted:
		return nil, ErrAborted
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *backend) Put(key string, value []byte) error { return b.store.Put("host", key, value) }
func (b *backend) Get(ctx context.Context, key string, wait time.Duration) ([]byte, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	v, ok := b.store.Get(ctx, key)
	return v, ok, nil
}
func (b *backend) Lost(by, rank int, cause string) {
	select {
	case b.lost <- fmt.Sprintf("%d lost %d: %s", by, rank, cause):
	default: // enough for any test
	}
}
func (b *backend) Left(by, rank int, cause string)     { b.Lost(by, rank, "left: "+cause) }
func (b *backend) AbortJob(by, rank int, cause string) { b.Lost(by, rank, "aborted: "+cause) }
func (b *backend) Note(by int, note Note) {
	b.Lost(by, by, fmt.Sprintf("note: %s, stall %v", note.Text, note.Stall))
}
func (b *backend) Aborted() <-chan struct{} { return b.aborted }
func (b *backend) AbortInfo() []byte        { return []byte(`{"rank":1}`) }

func openTestServer(t *testing.T, size int) (*Server, *backend) {
	t.Helper()
	b := newBackend(size)
	ranks := map[string]JobInfo{}
	for r := range size {
		ranks[fmt.Sprintf("token%d", r)] = JobInfo{
			Job:  "j",
			Rank: r,
			Size: size,
			Key:  []byte("key"),
		}
	}
	d := must.Get(OpenServer(ranks, b))(t)
	t.Cleanup(d.Close)
	return d, b
}

// ask sends one request and returns status and body.
func ask(t *testing.T, d *Server, token, method, path, body string) (int, string) {
	req, err := http.NewRequest(method, "http://"+d.Addr()+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func TestServerAdmitsOnlyTokens(t *testing.T) {
	d, _ := openTestServer(t, 2)
	code, text := ask(t, d, "token1", "GET", "/v1/job", "")
	check.That(t, code == 200 && strings.Contains(text, `"rank":1,"size":2,"key":"a2V5"`), "job: %d %s", code, text)
	for _, token := range []string{"", "token", "token2", "token1x"} {
		for _, path := range []string{"/v1/job", "/v1/kv/a", "/v1/abort"} {
			code, text := ask(t, d, token, "GET", path, "")
			check.That(t, code == 401 && text == "", "GET %s with token %q: %d %q", path, token, code, text)
		}
	}
}

// wants checks the answer to a request, which is a rank's token, a method and a path.
func wants(t *testing.T, d *Server, request, body string, code int, text string) {
	words := strings.Fields(request)
	got, answer := ask(t, d, words[0], words[1], "/v1/"+words[2], body)
	check.That(t, got == code && strings.TrimSpace(answer) == text, "%s of %d bytes: %d %q", request, len(body), got,
		answer)
}

func TestServerFence(t *testing.T) {
	d, _ := openTestServer(t, 3)
	var wg sync.WaitGroup
	for r := range 3 {
		request := fmt.Sprintf("token%d POST fence/ring/0/addr", r)
		wg.Go(func() { wants(t, d, request, fmt.Sprint("v", r), 200, `{"values":["djA=","djE=","djI="]}`) })
	}
	wg.Wait()
}

func TestServerStore(t *testing.T) {
	d, _ := openTestServer(t, 2)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { wants(t, d, "token1 GET kv/a/b?wait=10s", "", 200, "\x00value") })
	}
	wants(t, d, "token0 PUT kv/a/b", "\x00value", 204, "")
	wg.Wait()
}

// What is wrong with a request is answered, and what ranks tell the job of others reaches it.
func TestServerAnswers(t *testing.T) {
	d, b := openTestServer(t, 2)
	for _, tc := range []struct {
		request, body string
		code          int
		told          string
	}{
		{"token0 POST fence/x", strings.Repeat("v", MaxFence+1), 413, ""},
		{"token0 GET kv/a/b", "", 404, ""},
		{"token0 GET kv/a?wait=soon", "", 400, ""},
		{"token0 POST lost", `{"rank":1,"cause":"reset"}`, 204, "0 lost 1: reset"},
		{"token1 POST left", `{"rank":0,"cause":"closed"}`, 204, "1 lost 0: left: closed"},
		{"token0 POST lost", `{"rank":2}`, 400, ""},
		{"token0 POST left", `{"rank":-1}`, 400, ""},
		{"token0 POST abort", `{"rank":0,"cause":"it cannot go on"}`, 204, "0 lost 0: aborted: it cannot go on"},
		{"token1 POST note", `{"text":"waits","stall":true}`, 204, "1 lost 1: note: waits, stall true"},
		{"token1 POST note", `{"text":""}`, 400, ""},
		{"token1 POST note", strings.Repeat(" ", maxNote+1), 413, ""},
	} {
		words := strings.Fields(tc.request)
		code, text := ask(t, d, words[0], words[1], "/v1/"+words[2], tc.body)
		check.Equal(t, code, tc.code, tc.request, "is answered", text)
		if tc.told != "" {
			check.Equal(t, <-b.lost, tc.told, "the job is told")
		}
	}
	for _, path := range []string{"lost", "left", "abort", "note"} {
		for _, bad := range []string{"", "{}", "["} {
			code, _ := ask(t, d, "token0", "POST", "/v1/"+path, bad)
			check.Equal(t, code, 400, path, bad)
		}
	}
}

// A request for a key that is too long must not fail the host, and a fence whose name JSON cannot
// represent must be answered.
func TestServerTakesOnlyNamesThatTravel(t *testing.T) {
	d, _ := openTestServer(t, 1)
	for _, path := range []string{"fence/", "kv/"} {
		method := map[string]string{"fence/": "POST", "kv/": "PUT"}[path]
		for name, good := range map[string]bool{strings.Repeat("k", MaxKey): true, "%C3%A4": true,
			strings.Repeat("k", MaxKey+1): false, "a%FF": false} {
			code, text := ask(t, d, "token0", method, "/v1/"+path+name, "v")
			check.That(t, (code < 300) == good && (good || code == 400),
				"%s %s of %d bytes: %d %s", method, path, len(name), code, text)
			if code, text := ask(t, d, "token0", "GET", "/v1/kv/"+name, ""); path == "kv/" &&
				((code < 300) != good || !good && code != 400) {
				t.Errorf("GET of %d bytes: %d %s", len(name), code, text)
			}
		}
	}
}

func TestServerAbortReachesEveryWaiter(t *testing.T) {
	d, b := openTestServer(t, 2)
	var wg sync.WaitGroup
	wg.Go(func() { wants(t, d, "token0 GET abort", "", 200, `{"rank":1}`) })
	wg.Go(func() { wants(t, d, "token0 POST fence/f", "", 410, `{"rank":1}`) })
	wants(t, d, "token0 GET kv/a", "", 404, "") // usually they wait by now
	close(b.aborted)
	wg.Wait()
}

func TestClosedServerEndsWaiters(t *testing.T) {
	d, _ := openTestServer(t, 2)
	ended := make(chan error)
	go func() {
		req, _ := http.NewRequest("GET", "http://"+d.Addr()+"/v1/abort", nil)
		req.Header.Set("Authorization", "Bearer token0")
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		ended <- err
	}()
	time.Sleep(20 * time.Millisecond) // either way the request must end; usually it is waiting by now
	d.Close()
	check.That(t, <-ended != nil, "the wait was answered by a closed server")
}

// FuzzServer checks that no request gets in without a token and that none
// breaks the server.
func FuzzServer(f *testing.F) {
	f.Add("PUT", "kv/a", "body", "token0")
	f.Add("POST", "lost", `{"rank":1}`, "token1")
	f.Add("GET", "kv/%2e%2e/x?wait=-1s", "", "")
	f.Fuzz(func(t *testing.T, method, path, body, token string) {
		b := newBackend(1)
		rank := new(atomic.Pointer[JobInfo])
		rank.Store(&JobInfo{Size: 1})
		d := &Server{addr: "server", backend: b,
			ranks: map[[32]byte]*atomic.Pointer[JobInfo]{sha256.Sum256([]byte("secret")): rank}}
		handler := d.admit(d.routes())
		req, err := http.NewRequest(method, "http://server/v1/"+path, strings.NewReader(body))
		if err != nil {
			t.Skip()
		}
		req.Header.Set("Authorization", "Bearer "+token)
		w := &recorder{header: http.Header{}}
		handler.ServeHTTP(w, req)
		must.That(t, w.code == 401 && w.wrote <= 0,
			"%s %s answered %d to a request without a token, and %d bytes", method, path, w.code, w.wrote)
		must.That(t, len(b.store.values) == 0, "a request without a token changed the store")
		req.Header.Set("Authorization", "Bearer secret")
		req.Body = io.NopCloser(strings.NewReader(body))
		req.ContentLength = int64(len(body))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond) // some requests wait for ever
		defer cancel()
		w = &recorder{header: http.Header{}}
		handler.ServeHTTP(w, req.WithContext(ctx))
		switch w.code {
		case 0, 200, 204, 307, 308, 301, 400, 403, 404, 405, 409, 413, 503, 507:
		default:
			t.Fatalf("%s %s answered %d to a rank", method, path, w.code)
		}
	})
}

type recorder struct {
	header http.Header
	code   int
	wrote  int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(code int)        { r.code = code }
func (r *recorder) Write(p []byte) (int, error) { r.wrote += len(p); return len(p), nil }
