// Package ras asks NCCL's RAS service (NCCL 2.24 and later), which runs in every process that uses
// NCCL, what all processes of a job have launched.
package ras

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/gorun/gorun/internal/net/untrusted"
)

// Status is the answer of one process about all communicators of its job.
type Status struct {
	Version string   `json:"nccl_version,omitempty"`
	Comms   []Comm   `json:"communicators,omitempty"`
	Lines   []string `json:"lines,omitempty"` // errors and warnings of an NCCL that has no JSON answers
}

// Comm is a communicator.
type Comm struct {
	Hash    string `json:"hash"`
	Size    int    `json:"size"`
	Ranks   []Rank `json:"ranks"`
	Missing []Rank `json:"missing_ranks,omitempty"` // ranks that have not answered
}

// Rank is a member of a communicator.
type Rank struct {
	Rank   int    `json:"rank"` // rank in the communicator
	Host   string `json:"host"` // address of the rank's host
	PID    int    `json:"pid"`
	Status struct {
		AsyncError int  `json:"async_error,omitempty"`
		Abort      bool `json:"abort_flag,omitempty"`
		Dead       bool `json:"considered_dead,omitempty"`
	} `json:"status"`
	Counts map[string]uint64 `json:"collective_counts,omitempty"` // number of launched operations, by kind
}

// DefaultAddr is the address on which NCCL listens without NCCL_RAS_ADDR.
const DefaultAddr = "localhost:28028"

// Bounds on an answer.
const (
	maxAnswer = 16 << 20
	maxValues = 1 << 21
	maxComms  = 16
	maxRanks  = 1 << 16 // ranks of all communicators
	maxLines  = 40
	maxText   = 300
)

// Ask asks over a connection to a RAS service. The caller bounds the time by the connection's
// deadline, and closes it.
func Ask(conn io.ReadWriter) (*Status, error) {
	in := bufio.NewReader(io.LimitReader(conn, maxAnswer))
	// The number of seconds that a process waits for the others. Less than a second would time out
	// in a large job.
	for _, request := range []string{"CLIENT PROTOCOL 2", "TIMEOUT 1"} {
		if _, err := exchange(conn, in, request); err != nil {
			return nil, err
		}
	}
	format, err := exchange(conn, in, "SET FORMAT json")
	if err != nil {
		return nil, err
	}
	inJSON := format == "OK"
	request := "VERBOSE STATUS"
	if inJSON {
		request = "STATUS"
	}
	if _, err := io.WriteString(conn, request+"\n"); err != nil {
		return nil, err
	}
	if !inJSON {
		return readText(in)
	}
	s := &Status{}
	var answer json.RawMessage // its sender does not hang up
	err = json.NewDecoder(in).Decode(&answer)
	if err == nil {
		err = untrusted.Unmarshal(answer, maxValues, s)
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer of NCCL RAS: %w", err)
	}
	s.Lines = nil
	s.Trim()
	return s, nil
}

// exchange sends a request and returns the answer of one line.
func exchange(conn io.Writer, in *bufio.Reader, request string) (string, error) {
	if _, err := io.WriteString(conn, request+"\n"); err != nil {
		return "", err
	}
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", fmt.Errorf("read the answer of NCCL RAS to %q: %w", request, err)
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}

// Trim cuts an answer that another machine sends to bounds.
func (s *Status) Trim() {
	s.Version = cut(s.Version)
	s.Comms = s.Comms[:min(len(s.Comms), maxComms)]
	s.Lines = s.Lines[:min(len(s.Lines), maxLines)]
	for i := range s.Lines {
		s.Lines[i] = cut(s.Lines[i])
	}
	room := maxRanks
	for i := range s.Comms {
		c := &s.Comms[i]
		c.Hash = cut(c.Hash)
		for _, members := range []*[]Rank{&c.Ranks, &c.Missing} {
			*members = (*members)[:min(len(*members), room)]
			room -= len(*members)
			for j := range *members {
				(*members)[j].trim()
			}
		}
	}
}

// trim also forgets operations whose names NCCL does not have: it has a dozen short ones.
func (r *Rank) trim() {
	r.Host = cut(r.Host)
	maps.DeleteFunc(r.Counts, func(kind string, _ uint64) bool { return len(kind) > 40 || len(r.Counts) > 32 })
}

// readText keeps the errors and warnings of an answer in text.
func readText(in *bufio.Reader) (*Status, error) {
	s := &Status{}
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("read the answer of NCCL RAS: %w", err)
	}
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if version, is := strings.CutPrefix(line, "NCCL version "); is {
			version, _, _ = strings.Cut(version, " ")
			s.Version = cut(version)
		}
		switch {
		case line == "Errors" || line == "Warnings":
			inside = true
		case !inside || line == "" || strings.Trim(line, "=") == "":
		case len(s.Lines) < maxLines:
			s.Lines = append(s.Lines, cut(line))
		}
	}
	return s, nil
}

func cut(text string) string { return text[:min(len(text), maxText)] }
