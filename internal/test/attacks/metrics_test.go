package attacks

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/must"
)

// Another user who holds connections to --metrics, most of which have asked and read nothing, takes
// neither memory nor descriptors of gorun, and keeps the user out of nothing. A page that has given
// its own name the address of the server gets no metrics.
func TestMetricsUnderSiege(t *testing.T) {
	r := command.StartWithin(t, nil, siegeTime, "sh", nil, "-c", `ulimit -n 400; exec "$@"`, "sh",
		command.Binary("gorun"), "--launcher", "local", "-np", "1", "--metrics", ":0", "sleep", "600")
	url := regexp.MustCompile(`http://(127\.0\.0\.1:\d+)/metrics`)
	must.Until(t, "the address", func() bool { return url.MatchString(r.Err.String()) })
	addr := url.FindStringSubmatch(r.Err.String())[1]
	proc := filepath.Join("/proc", strconv.Itoa(r.Cmd.Process.Pid))
	before := residentKiB(t, proc)
	for _, say := range []string{"", "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		caller := userCommand(attacker, command.Binary("caller"), "-flood=600", addr)
		caller.Stdin = strings.NewReader(say)
		flood(t, caller)
	}
	if open, err := os.ReadDir(filepath.Join(proc, "fd")); err != nil || len(open) > 150 {
		t.Errorf("%d files are open, %v", len(open), err)
	}
	more := residentKiB(t, proc) - before
	check.That(t, more <= 48<<10, "gorun has grown by %d KiB", more)
	for host, want := range map[string]int{"": 200, "localhost": 200, "127.0.0.1:1": 200, "[::1]": 200,
		"evil.example": http.StatusMisdirectedRequest, "127.0.0.1.evil.example": http.StatusMisdirectedRequest,
		"10.1.2.3": http.StatusMisdirectedRequest, "localhost.evil.example:80": http.StatusMisdirectedRequest} {
		request := must.Get(http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/metrics", nil))(t)
		request.Host = host
		answer := must.Get(http.DefaultClient.Do(request))(t)
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != want || strings.Contains(string(text), "gorun_ranks") != (want == 200) {
			t.Errorf("host %q: %d, %.100q, %v", host, answer.StatusCode, text, err)
		}
	}
	text := r.Err.String()
	check.That(t, !strings.Contains(text, "http: "), "gorun printed %s", text)
	r.Stop()
}

// residentKiB returns the resident memory of a process, of /proc/PID.
func residentKiB(t *testing.T, proc string) int {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(proc, "status")))(t)
	found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(text)
	must.That(t, found != nil, "no memory in %s", text)
	n, _ := strconv.Atoi(string(found[1]))
	return n
}
