package layers

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// listeners says, for each file of the product that opens a port or a socket for others or serves
// HTTP, what bounds the connections of strangers there.
func listeners() map[string]string {
	return map[string]string{
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
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && (rel != "." && ignored(rel) || rel == "internal/test" || rel == "internal/tools"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		opens := ""
		for line := range strings.Lines(string(text)) {
			if code, _, _ := strings.Cut(line, "//"); opening.MatchString(code) {
				opens = strings.TrimSpace(line)
			}
		}
		if opens != "" && rows[rel] == "" {
			t.Errorf("%s: %s\nhas no bound on connections: use internal/net/admit, and add a row here", rel, opens)
		}
		if opens == "" && rows[rel] != "" {
			t.Errorf("%s opens no listener: remove its row", rel)
		}
		delete(rows, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range rows {
		t.Errorf("there is no %s: remove its row", name)
	}
}
