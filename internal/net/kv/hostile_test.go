package kv

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// refused is how the answer to a request without a token begins.
const refused = "HTTP/1.1 401 "

// unauthenticated are requests without a token, and how each answer begins.
func unauthenticated(addr string) map[string]struct{ send, want string } {
	get := func(header string) string { return "GET /v1/job HTTP/1.1\r\nHost: " + addr + "\r\n" + header + "\r\n" }
	const malformed = "HTTP/1.1 400 "
	return map[string]struct{ send, want string }{
		"no token":              {get(""), refused},
		"empty token":           {get("Authorization: Bearer \r\n"), refused},
		"half a token":          {get("Authorization: Bearer token\r\n"), refused},
		"no bearer":             {get("Authorization: token0\r\n"), refused},
		"basic":                 {get("Authorization: Basic token0\r\n"), refused},
		"token of another case": {get("Authorization: Bearer TOKEN0\r\n"), refused},
		"two tokens":            {get("Authorization: Bearer x\r\nAuthorization: Bearer token0\r\n"), refused},
		"rebound name": {"GET /v1/job HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer token0\r\n\r\n",
			refused},
		"page of a browser": {get("Authorization: Bearer token0\r\nOrigin: http://evil.example\r\n"), refused},
		"no such path":      {"GET /etc/passwd HTTP/1.1\r\nHost: " + addr + "\r\n\r\n", refused},
		"dots":              {"GET /v1/kv/../../x HTTP/1.1\r\nHost: " + addr + "\r\n\r\n", refused},
		"encoded dots": {"PUT /v1/kv/%2e%2e%2fx HTTP/1.1\r\nHost: " + addr + "\r\nContent-Length: 1\r\n\r\nx",
			refused},
		"two slashes": {"GET //v1//job HTTP/1.1\r\nHost: " + addr + "\r\n\r\n", refused},
		"absolute": {"GET http://evil.example/v1/job HTTP/1.1\r\nHost: " + addr +
			"\r\nAuthorization: Bearer token0\r\n\r\n", refused},
		"odd method": {"BREW /v1/job HTTP/1.1\r\nHost: " + addr + "\r\n\r\n", refused},
		"options":    {"OPTIONS * HTTP/1.1\r\nHost: " + addr + "\r\n\r\n", refused},
		"connect":    {"CONNECT example:80 HTTP/1.1\r\nHost: example:80\r\n\r\n", refused},
		"a body of 1 GiB": {"PUT /v1/kv/a HTTP/1.1\r\nHost: " + addr + "\r\nContent-Length: 1073741824\r\n\r\n",
			refused},
		"chunks without end": {"PUT /v1/kv/a HTTP/1.1\r\nHost: " + addr +
			"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n", refused},
		"waits for 100": {"PUT /v1/kv/a HTTP/1.1\r\nHost: " + addr +
			"\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", refused},
		"pipelined": {get("") + get("Authorization: Bearer token0\r\n"), refused},
		"smuggled": {"PUT /v1/kv/a HTTP/1.1\r\nHost: " + addr +
			"\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
			get("Authorization: Bearer token0\r\n"), refused},
		"two lengths": {"PUT /v1/kv/a HTTP/1.1\r\nHost: " + addr +
			"\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", malformed},
		"long header": {get("X: " + strings.Repeat("x", 64<<10) + "\r\n"), "HTTP/1.1 431 "},
		"TLS":         {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", malformed},
		"SSH":         {"SSH-2.0-OpenSSH_9.2\r\n\r\n", malformed},
		"HTTP/2":      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 "},
		"NULs":        {strings.Repeat("\x00", 64) + "\n\n", malformed},
	}
}

// Requests without a token get one answer, and change nothing. All refusals are alike: what is
// asked for, how, and what is wrong with the token changes no byte.
func TestServerRevealsNothingWithoutAToken(t *testing.T) {
	d, b := openTestServer(t, 1)
	passing := regexp.MustCompile(`(Date|Connection): .*\r\n`)
	var refusals sync.Map
	t.Cleanup(func() {
		b.store.mu.Lock()
		defer b.store.mu.Unlock()
		check.That(t, len(b.store.values) == 0, "requests without a token left %v", b.store.values)
		all := maps.Collect(refusals.Range)
		check.That(t, len(all) == 1, "refusals differ: %q", all)
	})
	for name, tc := range unauthenticated(d.Addr()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := must.Get(net.Dial("tcp", d.Addr()))(t)
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			_, _ = io.WriteString(conn, tc.send)
			all, _ := io.ReadAll(conn) // to the end: one answer, and then it is closed
			answer := string(all)
			check.That(t, strings.HasPrefix(answer, tc.want), "answered %q", answer)
			check.Equal(t, strings.Count(answer, "HTTP/1.1 "), 1, "answers:", answer)
			check.That(t, !strings.Contains(answer, "a2V5"), "the job's key is in %q", answer)
			if tc.want == refused {
				check.That(t, strings.HasSuffix(answer, "\r\n\r\n"), "more than a word: %q", answer)
				refusals.Store(passing.ReplaceAllString(answer, ""), name)
			}
		})
	}
}

// Requests whose body never comes end in time; other requests go on.
func TestServerCutsOffSlowBodies(t *testing.T) {
	must.HaveTime(t)
	t.Parallel()
	d, _ := openTestServer(t, 1)
	conn := must.Get(net.Dial("tcp", d.Addr()))(t)
	defer conn.Close()
	fmt.Fprintf(conn,
		"PUT /v1/kv/a HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer token0\r\nContent-Length: 100\r\n\r\n", d.Addr())
	began := time.Now()
	_ = conn.SetDeadline(began.Add(4 * bodyTime))
	answer, err := io.ReadAll(conn)
	if took := time.Since(began); err != nil || took < bodyTime/2 || !bytes.HasPrefix(answer, []byte("HTTP/1.1 400 ")) {
		t.Errorf("after %v: %q, %v", took, answer, err)
	}
}

func TestServerBoundsRequests(t *testing.T) {
	d, _ := openTestServer(t, 1)
	d.inside.Store(int64(MaxRequests(1)))
	code, _ := ask(t, d, "token0", "GET", "/v1/job", "")
	check.Equal(t, code, http.StatusServiceUnavailable, "one request too many")
	d.inside.Add(-1)
	code, _ = ask(t, d, "token0", "GET", "/v1/job", "")
	check.Equal(t, code, 200, "the last one within the bound")
}

// A rank cannot speak for the agents, which believe what the others keep in the store for MPI and
// Horovod.
func TestRanksCannotUseTheAgentsNames(t *testing.T) {
	d, _ := openTestServer(t, 1)
	for _, name := range []string{"pmix/name/ocean", "pmix/answer/0/1/1", "pmix%2Fname%2Focean", "pmi/service/ocean",
		"gloo/1/x", "world/1/pmi/1/0", "epoch/1/gloo/x"} {
		for _, request := range []string{"PUT /v1/kv/", "GET /v1/kv/", "POST /v1/fence/"} {
			method, path, _ := strings.Cut(request, " ")
			code, text := ask(t, d, "token0", method, path+name, "x")
			check.That(t, code == http.StatusForbidden, "%s%s: %d, %q", request, name, code, text)
		}
	}
}

// What a rank says of itself is read by all, and put by the rank alone.
func TestRanksSpeakForThemselvesInTheStore(t *testing.T) {
	d, b := openTestServer(t, 2)
	own := RankKey(0, 1, "ring/stall")
	wants(t, d, "token1 PUT kv/"+own, "3 true true", 204, "")
	for _, request := range []string{"token0 PUT kv/" + own, "token0 PUT kv/epoch%2F0%2Frank%2F1%2Fring%2Fstall",
		"token1 PUT kv/" + RankKey(1, 1, "a"), "token1 PUT kv/epoch/0/rank/1x/a", "token1 PUT kv/epoch/0/rank/",
		"token1 POST fence/" + own} {
		words := strings.Fields(request)
		code, text := ask(t, d, words[0], words[1], "/v1/"+words[2], "x")
		check.That(t, code == http.StatusForbidden, "%s: %d, %q", request, code, text)
	}
	for _, token := range []string{"token0", "token1"} {
		wants(t, d, token+" GET kv/"+own, "", 200, "3 true true")
	}
	must.Equal(t, len(b.store.values), 1, "keys of the store")
	for _, key := range []string{"rank/0/a", "ring/0/a", "epoch", "epochs/1/a", "host/0/a"} {
		wants(t, d, "token1 PUT kv/"+key, "v", 204, "") // a program's own
	}
}

// Many ranks of one host connect at the same time, and the server reads their tokens late: none of
// them is closed for another.
func TestPendingConnectionsOfAllRanksStay(t *testing.T) {
	const ranks = 300
	b := bounds(ranks)
	check.That(t, b.Own >= ranks && b.Other >= ranks && b.Elsewhere >= ranks, "%+v for %d ranks", b, ranks)
}

// TestServerUnderFlood: another user of the host opens connections as fast as it can, some with
// garbage, some silent. The ranks' requests go on, and memory stays.
func TestServerUnderFlood(t *testing.T) {
	must.HaveTime(t)
	d, _ := openTestServer(t, 2)
	code, _ := ask(t, d, "token0", "PUT", "/v1/kv/a", "value")
	must.Equal(t, code, 204)
	before := resident(t)
	uid := os.Getuid()
	if uid == 0 {
		uid = 65534
	}
	cmd := helper(t, uid, "flood", d.Addr())
	const goal = 16 << 20 // S23
	var most int
	for deadline := time.Now().Add(4 * time.Second); time.Now().Before(deadline); {
		// A new connection each time: no earlier token counts for it.
		req, _ := http.NewRequest("GET", "http://"+d.Addr()+"/v1/kv/a", nil)
		req.Header.Set("Authorization", "Bearer token1")
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		must.OK(t, err, "a rank is kept out")
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(text) != "value" {
			t.Errorf("%d %q", resp.StatusCode, text)
		}
		resp.Body.Close()
		most = max(most, resident(t)-before)
	}
	floods := cmd.stop()
	t.Logf("%s connections of the other user; %d KiB more memory", floods, most>>10)
	if limit := goal * 3; most > limit && !underRace { // the race detector has its own ideas of memory
		t.Errorf("%d bytes more memory", most)
	}
	check.That(t, floods != "0", "nobody flooded the server")
}

// resident is this process's memory in bytes.
func resident(t *testing.T) int {
	text := must.Get(os.ReadFile("/proc/self/statm"))(t)
	var size, pages int
	fmt.Sscan(string(text), &size, &pages)
	return pages * os.Getpagesize()
}
