package pmi

import (
	"fmt"
	"strings"
)

// Limits announced to clients, equal to Hydra's. A client's line buffer has 1024 bytes.
const (
	maxName  = 256
	maxKey   = 64
	maxValue = 1024
	maxLine  = 4 << 10 // of a request
)

// request is one line of a client.
type request struct {
	command string            // of cmd= or mcmd=
	many    bool              // mcmd=: more lines follow, up to endcmd
	words   map[string]string // all other words
}

// parse splits a line into words. A value ends at the next blank, except that of
// "value=", which is the last word of its line and may contain blanks.
func parse(line string) (request, error) {
	r := request{words: map[string]string{}}
	for rest := strings.TrimRight(line, "\r\n"); rest != ""; {
		var word string
		if strings.HasPrefix(rest, "value=") {
			word = rest
			rest = ""
		} else {
			word, rest, _ = strings.Cut(rest, " ")
		}
		key, value, found := strings.Cut(word, "=")
		switch {
		case !found: // an extra blank, or the rest of a message
		case key == "cmd" || key == "mcmd":
			r.command = value
			r.many = key == "mcmd"
		default:
			r.words[key] = value
		}
	}
	if r.command == "" {
		return request{}, fmt.Errorf("a line without a command: %.80q", line)
	}
	return r, nil
}
