package pmi

import (
	"fmt"
	"strings"
)

// Limits that clients are told of, Hydra's own. A client's line buffer is 1024 bytes.
const (
	maxName  = 256
	maxKey   = 64
	maxValue = 1024
	maxLine  = 4 << 10 // of a request
)

// request is one line of a client.
type request struct {
	command string            // of cmd= or mcmd=
	many    bool              // mcmd=: more lines follow, to endcmd
	words   map[string]string // the others
}

// parse splits a line into its words. A value ends at the next blank, but that of
// "value=", the last word of its line, may hold blanks.
func parse(line string) (request, error) {
	r := request{words: map[string]string{}}
	for rest := strings.TrimRight(line, "\r\n"); rest != ""; {
		var word string
		if strings.HasPrefix(rest, "value=") {
			word, rest = rest, ""
		} else {
			word, rest, _ = strings.Cut(rest, " ")
		}
		key, value, found := strings.Cut(word, "=")
		switch {
		case !found: // a blank too many, or the rest of a message
		case key == "cmd" || key == "mcmd":
			r.command, r.many = value, key == "mcmd"
		default:
			r.words[key] = value
		}
	}
	if r.command == "" {
		return request{}, fmt.Errorf("a line without a command: %.80q", line)
	}
	return r, nil
}
