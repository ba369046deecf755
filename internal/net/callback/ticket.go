// Package callback lets processes that a launcher has started by one command on many hosts connect
// back to it. Both ends know each other by keys: TLS 1.3, pinned by a ticket that travels on the
// processes' standard input.
package callback

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/gorun/gorun/internal/net/secure"
)

// Ticket lets a host connect back. Its holder can impersonate any of the hosts, but not the
// launcher.
type Ticket struct {
	Addresses []string `json:"addresses"` // IP addresses of the launcher's machine
	Port      int      `json:"port"`
	Launcher  []byte   `json:"launcher"` // SHA-256 of the launcher's public key
	Seed      []byte   `json:"seed"`     // seed of the hosts' key
}

// maxTicket bounds the bytes of a ticket.
const maxTicket = 64 << 10

// WriteTo writes the ticket as a line.
func (t Ticket) WriteTo(w io.Writer) (int64, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return 0, err
	}
	n, err := w.Write(append(text, '\n'))
	return int64(n), err
}

// ReadTicket reads a ticket. It may read beyond the ticket's line, so r must not be used
// afterwards.
func ReadTicket(r io.Reader) (t Ticket, err error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxTicket)).ReadBytes('\n')
	if err != nil {
		return t, fmt.Errorf("read the ticket: %w", err)
	}
	if err := json.Unmarshal(line, &t); err != nil {
		return t, fmt.Errorf("read the ticket: %w", err)
	}
	if len(t.Launcher) != sha256.Size || len(t.Seed) != secure.SeedSize || t.Port <= 0 || t.Port > 65535 {
		return t, errors.New("read the ticket: it lacks a key, or the port")
	}
	return t, nil
}
