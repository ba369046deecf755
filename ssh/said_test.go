package ssh

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// What the server said in any phase of a connection that fails is in the error: clean, bounded,
// behind the host's name.
func TestServersWordsAreQuoted(t *testing.T) {
	const denial = "you have no\x1b[2J active jobs on this node\r\n"
	const quoted = `the server says "you have no?[2J active jobs on this node"`
	notice := strings.Repeat("This system is for authorized use only.\n", 100)
	banner := func(r *rawServer, texts ...string) {
		r.mute = true
		for _, words := range texts {
			r.send(msgAuthBanner, text(words), text(""))
		}
	}
	farewell := func(r *rawServer) {
		r.send(msgDisconnect, word(2), text("Timeout, \x1b[2Jbye"), text(""))
		r.conn.Close()
	}
	for _, tc := range []struct {
		name  string
		stdin io.Reader
		want  string
		serve func(r *rawServer)
	}{
		{"a line instead of an SSH banner", nil, `: the server says "maintenance until noon"`, func(r *rawServer) {
			io.WriteString(r.conn, "maintenance until noon\r\n")
			r.conn.Close()
		}},
		{"a line before the SSH banner of a server that then leaves", nil, `: the server says "maintenance until noon"`,
			func(r *rawServer) {
				io.WriteString(r.conn, "maintenance until noon\r\nSSH-2.0-x\r\n")
				r.conn.Close()
			}},
		{"a disconnect instead of a key exchange", nil, `key exchange: ssh: disconnect, reason 2: "Timeout, \x1b[2Jbye"`,
			func(r *rawServer) {
				r.change = func([]byte) [][]byte {
					return [][]byte{packet(msgDisconnect, word(2), text("Timeout, \x1b[2Jbye"), text(""))}
				}
			}},
		{"a denial while authenticating", nil, "authentication: the server closed the connection: " + quoted,
			func(r *rawServer) { r.at["auth"] = func() { banner(r, denial); r.conn.Close() } }},
		{"a denial behind a long notice", nil, "bytes left out) ... This system is for authorized use only.",
			func(r *rawServer) {
				r.at["auth"] = func() { banner(r, notice, denial); r.conn.Close() }
			}},
		{"the end of a long notice", nil, `active jobs on this node"`, func(r *rawServer) {
			r.at["auth"] = func() { banner(r, notice, denial); r.conn.Close() }
		}},
		{"a denial, and then silence", nil, "authentication: no answer in time: " + quoted, func(r *rawServer) {
			r.at["auth"] = func() { banner(r, denial) }
		}},
		{"a denial, and then no more methods", nil, "is not let in", func(r *rawServer) {
			r.at["auth"] = func() { banner(r, denial); r.send(msgAuthFailure, text("publickey"), []byte{0}) }
		}},
		{"a disconnect while authenticating", nil, `is not let in: ssh: disconnect, reason 2: "Timeout, \x1b[2Jbye"`,
			func(r *rawServer) { r.at["auth"] = func() { r.mute = true; farewell(r) } }},
		{"a refused session", nil, `the server starts no command: ssh: rejected: administratively prohibited ` +
			`("no \x1b[2Jquota")`, func(r *rawServer) {
			r.at["open"] = func() {
				r.mute = true
				r.send(msgChannelFailure, word(r.channel), word(1), text("no \x1b[2Jquota"), text(""))
			}
		}},
		{"a disconnect instead of a session", nil, `connection lost: ssh: disconnect, reason 2: "Timeout, \x1b[2Jbye"`,
			func(r *rawServer) { r.at["open"] = func() { r.mute = true; farewell(r) } }},
		{"a disconnect instead of a command", nil, `connection lost: ssh: disconnect, reason 2: "Timeout, \x1b[2Jbye"`,
			func(r *rawServer) { r.at["exec"] = func() { r.mute = true; farewell(r) } }},
		{"a disconnect while input flows", endless{},
			`connection lost: ssh: disconnect, reason 2: "Timeout, \x1b[2Jbye"`,
			func(r *rawServer) {
				r.at["exec"] = func() {
					r.mute = true
					r.send(msgChannelSuccess, word(r.channel))
					time.AfterFunc(50*time.Millisecond, func() { farewell(r) })
				}
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bound := 30 * time.Second // which a busy machine needs
			if strings.HasSuffix(tc.name, "silence") {
				bound = 3 * time.Second
			}
			h := newHostile(t, bound)
			_, err := h.run(t, tc.stdin, func(conn net.Conn) {
				r := &rawServer{conn: conn, key: h.key, at: map[string]func(){}}
				tc.serve(r)
				r.serve()
			})
			must.That(t, err != nil && strings.Contains(err.Error(), tc.want), "%v\nwant %s", err, tc.want)
			text := err.Error()
			check.That(t, strings.HasPrefix(text, "h: ") && !strings.ContainsRune(text, 0x1b) && len(text) <= 2*maxText,
				"not fit for a terminal: %q", text)
		})
	}
}
