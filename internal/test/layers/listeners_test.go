package layers

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/documents"
)

// listeners says, for each file of the product that opens a port or a socket for others or serves
// HTTP, what bounds the connections of strangers there.
func listeners() map[string]string {
	return map[string]string{
		"cmd/gorun/internal/jobs/forward.go":     "other users are closed at once, and there are 24 at most",
		"internal/bench/wire.go":                 "admit.Pending, until the nonce is shown",
		"internal/doctor/probe/probe.go":         "secure.Authenticator",
		"internal/files/relay/receive.go":        "secure.Authenticator",
		"internal/host/services/mpi.go":          "other users are closed at once",
		"internal/mpi/gloo/serve.go":             "other users are closed at once, and there are 1024 at most",
		"internal/net/admit/http.go":             "NewServer: headers of HTTP, without a log",
		"internal/net/callback/listener.go":      "admit.Pending, until the hello",
		"internal/net/kv/server.go":              "admit.Pending, until a token is shown",
		"internal/net/secure/endpoint.go":        "admit.Pending, until the handshake is over",
		"internal/sight/control/socket.go":       "other users are closed at once",
		"internal/sight/watch/metrics/server.go": "admit.Pending, always",
	}
}

// opening finds calls that open a listener, and servers of HTTP.
var opening = regexp.MustCompile(`net\.Listen(TCP|Unix|Packet|UDP)?\(|net\.ListenConfig|net\.FileListener|` +
	`unix\.Listen\(|\.ListenAll\(|http\.Server\{|\.ListenAndServe`)

// A new listener says what bounds the connections of strangers.
func TestEveryListenerIsBounded(t *testing.T) {
	rows := listeners()
	opens := openers(t, opening)
	for name, line := range opens {
		if rows[name] == "" {
			t.Errorf("%s: %s\nhas no bound on connections: use internal/net/admit, and add a row here", name, line)
		}
	}
	for name := range rows {
		if opens[name] == "" {
			t.Errorf("%s opens no listener, or is gone: remove its row", name)
		}
	}
}

// Every package that opens a listener or memory that others reach has a row in the table of doors.
func TestEveryListenerHasARow(t *testing.T) {
	sources := map[string]bool{}
	for _, row := range documents.TableOfDoors(documents.Text(t, root, "docs/security.md")) {
		sources[row.Source] = true
	}
	opens := openers(t, regexp.MustCompile(
		`(net|ListenConfig\{.*|lc|config)\.Listen\(|ListenUnix\(|unix\.(Bind|MemfdCreate|Mkfifo)\(`))
	for name := range opens {
		if in := path.Dir(name); !sources[in] {
			t.Errorf("%s opens a door, and docs/security.md has no row for %s", name, in)
		}
	}
	if len(opens) < 10 {
		t.Fatalf("only %d files open doors", len(opens))
	}
}

// openers returns the files of the product that match, each with a line that does.
func openers(t *testing.T, pattern *regexp.Regexp) map[string]string {
	t.Helper()
	found := map[string]string{}
	eachSource(t, func(name, text string) {
		if below(name, "internal/test") || below(name, "internal/tools") || strings.HasSuffix(name, "_test.go") {
			return
		}
		for line := range strings.Lines(text) {
			if code, _, _ := strings.Cut(line, "//"); pattern.MatchString(code) {
				found[name] = strings.TrimSpace(line)
			}
		}
	})
	return found
}
