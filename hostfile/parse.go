package hostfile

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ParseList parses the value of -H, such as a:2,b,user@c:4,[fd00::1]:2. A host
// without a count has one slot. An error is a [*ParseError] with File "-H".
func ParseList(s string) ([]Host, error) {
	const file = "-H"
	if len(s) > MaxBytes {
		return nil, &ParseError{File: file, Msg: tooLong}
	}
	hosts := newTable()
	col := 1
	for item := range strings.SplitSeq(s, ",") {
		w := trim(word{item, col})
		h, err := parseHost(w, false)
		if err == nil {
			err = hosts.add(w, h)
		}
		if err != nil {
			err.File = file
			return nil, err
		}
		col += len(item) + 1
	}
	return hosts.list, nil
}

// Parse reads a hostfile; name is what errors call it. A host without a count
// has one slot. Blank lines, comments from # to the line's end, a byte order
// mark and carriage returns are skipped. What is wrong with the text is a
// [*ParseError]; a file without any host is one too.
func Parse(name string, r io.Reader) ([]Host, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > MaxBytes {
		return nil, &ParseError{File: name, Msg: tooLong}
	}
	hosts := newTable()
	n := 0
	for line := range strings.SplitSeq(strings.TrimPrefix(string(text), "\ufeff"), "\n") {
		n++
		if err := parseLine(line, hosts); err != nil {
			err.File, err.Line = name, n
			return nil, err
		}
	}
	if len(hosts.list) == 0 {
		return nil, &ParseError{File: name, Msg: "no host in it; write one host a line, such as: node1 slots=4"}
	}
	return hosts.list, nil
}

const tooLong = "longer than 1 MiB, the limit for a list of hosts"

// parseLine adds the host of one hostfile line, if it has one.
func parseLine(line string, hosts *table) *ParseError {
	line, _, _ = strings.Cut(strings.TrimSuffix(line, "\r"), "#")
	words := fields(line)
	if len(words) == 0 {
		return nil
	}
	hasSlots := false
	for _, w := range words[1:] {
		hasSlots = hasSlots || strings.HasPrefix(w.text, "slots=")
	}
	h, err := parseHost(words[0], hasSlots)
	if err != nil {
		return err
	}
	for _, w := range words[1:] {
		if err := parseOption(w, &h); err != nil {
			return err
		}
	}
	return hosts.add(words[0], h)
}

// parseOption sets the field of h that the word key=value names. A field that
// is set already was written twice. Slots still at 0 are settled by add.
func parseOption(w word, h *Host) *ParseError {
	key, value, ok := strings.Cut(w.text, "=")
	if !ok {
		return w.fault("expected key=value, with one of the keys " + keys)
	}
	number := func(field *int, limit int) *ParseError {
		if *field != 0 {
			return w.fault(key + " is given twice on this line")
		}
		if *field, ok = atoi(value, limit); !ok {
			return w.fault(fmt.Sprintf("%s must be a whole number from 1 to %d", key, limit))
		}
		return nil
	}
	switch key {
	case "slots":
		return number(&h.Slots, MaxSlots)
	case "max_slots":
		return number(&h.MaxSlots, MaxSlots)
	case "port":
		return number(&h.Port, MaxPort)
	case "user":
		if h.User != "" {
			return w.fault("user is given twice on this line")
		}
		if !validUser(value) {
			return w.fault(badUser)
		}
		h.User = value
		return nil
	}
	return w.fault(fmt.Sprintf("unknown key %q; the keys are %s", key, keys))
}

const keys = "slots, max_slots, port and user"

// table collects hosts in the order of their first mention.
type table struct {
	list  []Host
	index map[identity]int // place in list
}

// identity is what makes two mentions the same host.
type identity struct {
	name, user string
	port       int
}

func newTable() *table { return &table{index: map[identity]int{}} }

// add puts h behind the others, or adds its slots to the mention that is there
// already. Every max_slots that a host's mentions state holds, so the smallest
// one counts. w is where h was written.
func (t *table) add(w word, h Host) *ParseError {
	if h.Slots == 0 {
		h.Slots = 1
	}
	id := identity{h.Name, h.User, h.Port}
	i, known := t.index[id]
	if known {
		first := t.list[i]
		h.Slots += first.Slots
		if h.MaxSlots == 0 || first.MaxSlots != 0 && first.MaxSlots < h.MaxSlots {
			h.MaxSlots = first.MaxSlots
		}
	}
	switch {
	case h.Slots > MaxSlots:
		return w.fault(fmt.Sprintf("the slots of this host add up to more than %d", MaxSlots))
	case h.MaxSlots != 0 && h.Slots > h.MaxSlots:
		return w.fault(fmt.Sprintf("this host has %d slots, more than its max_slots of %d", h.Slots, h.MaxSlots))
	case known:
		t.list[i] = h
		return nil
	case len(t.list) == MaxHosts:
		return w.fault(fmt.Sprintf("more than %d hosts", MaxHosts))
	}
	t.index[id] = len(t.list)
	t.list = append(t.list, h)
	return nil
}

// word is a piece of a line and the column of its first byte, counted from 1.
type word struct {
	text string
	col  int
}

func (w word) fault(msg string) *ParseError {
	return &ParseError{Col: w.col, Word: w.text, Msg: msg}
}

const blanks = " \t"

// fields splits line at blanks and keeps the columns.
func fields(line string) []word {
	var words []word
	for at := 0; at < len(line); {
		end := strings.IndexAny(line[at:], blanks)
		if end < 0 {
			end = len(line) - at
		}
		if end > 0 {
			words = append(words, word{line[at : at+end], at + 1})
		}
		at += end + 1
	}
	return words
}

// trim drops the blanks around w's text.
func trim(w word) word {
	left := strings.TrimLeft(w.text, blanks)
	return word{strings.TrimRight(left, blanks), w.col + len(w.text) - len(left)}
}

// atoi reads a decimal number from 1 to limit, digits only.
func atoi(s string, limit int) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil && 1 <= n && n <= uint64(limit)
}
