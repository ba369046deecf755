package hostfile

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// ParseList parses the value of -H, such as a:2,b,user@c:4,[fd00::1]:2,f[1-3]. A
// host without a count has one slot. As other launchers do, it skips empty items. An error
// is a [*ParseError] with File "-H".
func ParseList(s string) (List, error) {
	const file = "-H"
	if len(s) > MaxBytes {
		return List{}, &ParseError{File: file, Msg: tooLong}
	}
	p := newParser(file)
	for col := 1; ; {
		item, rest, more := cutItem(s)
		last := !more && len(p.list.entries) == 0
		if strings.Trim(item, blanks) != "" || last {
			if err := p.words([]word{trim(word{raw: item, col: col})}); err != nil {
				err.File = file
				return List{}, err
			}
		}
		if !more {
			return p.list, nil
		}
		col += len(item) + 1
		s = rest
	}
}

// cutItem cuts s at its first comma outside brackets.
func cutItem(s string) (item, rest string, more bool) {
	inside := false
	for i := range len(s) {
		switch s[i] {
		case '[':
			inside = true
		case ']':
			inside = false
		case ',':
			if !inside {
				return s[:i], s[i+1:], true
			}
		}
	}
	return s, "", false
}

// Parse parses a hostfile; name is its name in errors. A host without a count has as
// many slots as gpus=, or one. Blank lines, comments (# and // to the end of the line,
// /* to */), a byte order mark and carriage returns are skipped. An unknown key is a
// warning, a mistyped one an error. Invalid text, and a file without hosts, is a [*ParseError].
func Parse(name string, r io.Reader) (List, error) {
	text, err := readAll(name, r)
	if err != nil {
		return List{}, err
	}
	p := newParser(name)
	for line := range strings.SplitSeq(text, "\n") {
		words, err := p.lex.words(line)
		if err == nil && len(words) > 0 {
			err = p.words(words)
		}
		if err != nil {
			err.File = name
			return List{}, err
		}
	}
	if open := p.lex.block; open != nil {
		open.File = name
		return List{}, open
	}
	if len(p.list.entries) == 0 {
		return List{}, &ParseError{File: name, Msg: "no host in it; write one host a line, such as: node1 slots=4"}
	}
	return p.list, nil
}

// readAll reads a text of limited length and removes its byte order mark.
func readAll(name string, r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	s := string(text)
	switch {
	case len(s) > MaxBytes:
		return "", &ParseError{File: name, Msg: tooLong}
	case strings.HasPrefix(s, "\xff\xfe") || strings.HasPrefix(s, "\xfe\xff"):
		return "", &ParseError{File: name, Msg: "written in UTF-16; save it as UTF-8"}
	}
	return strings.TrimPrefix(s, "\ufeff"), nil
}

const tooLong = "longer than 4 MiB, the limit for a list of hosts"

// parser collects the hosts of a text.
type parser struct {
	lex     lexer
	list    List
	ignored map[string]bool // unknown keys with a warning
}

func newParser(name string) *parser {
	return &parser{list: List{name: name}, ignored: map[string]bool{}}
}

// words parses one line, or one item of -H.
func (p *parser) words(words []word) *ParseError {
	hasSlots := false
	for _, w := range words[1:] {
		key, _, _ := strings.Cut(w.text, "=")
		hasSlots = hasSlots || canonical(key) == keySlots
	}
	m, err := parseMention(words[0], hasSlots)
	if err != nil {
		return err
	}
	if m.kind != kindHost && len(words) > 1 {
		return words[1].fault(fmt.Sprintf("nothing may follow %q on its line", words[0].raw))
	}
	for _, w := range words[1:] {
		if err := p.option(w, &m); err != nil {
			return err
		}
	}
	if len(p.list.entries)+len(m.names) > maxWords {
		return words[0].fault(fmt.Sprintf("more than %d hosts up to here", maxWords))
	}
	for _, name := range m.names {
		m.entry.host.Name = name
		p.list.entries = append(p.list.entries, m.entry)
	}
	return nil
}

// Keys of a hostfile.
const (
	keySlots    = "slots"
	keyMaxSlots = "max_slots"
	keyPort     = "port"
	keyUser     = "user"
	keyGPUs     = "gpus"
	keys        = "slots, max_slots, gpus, port and user"
)

// spellings returns gorun's keys in all launchers' spellings. The synonyms are those of Open MPI's
// hostfile lexer.
func spellings() map[string][]string {
	return map[string][]string{
		keySlots:    {"slots", "cpu", "count"},
		keyMaxSlots: {"max_slots", "slots_max", "max_cpu", "cpu_max", "max_count", "count_max"},
		keyUser:     {"user", "username", "user_name"},
		keyPort:     {"port"},
		keyGPUs:     {"gpus"},
	}
}

// canonical returns gorun's name of a key in any launcher's spelling, or "".
func canonical(key string) string {
	return spelled(key, func(a, b string) bool { return a == b })
}

// mistyped returns the key that differs from a mistyped one by a letter, or by two that are
// swapped, but not in the first letter, or "".
func mistyped(key string) string {
	return spelled(strings.ToLower(key), func(a, b string) bool { return a[0] == b[0] && oneEdit(a, b) })
}

func spelled(key string, equal func(a, b string) bool) string {
	key = strings.ReplaceAll(key, "-", "_")
	known := spellings()
	for _, name := range []string{keySlots, keyMaxSlots, keyUser, keyPort, keyGPUs} {
		if slices.ContainsFunc(known[name], func(s string) bool { return equal(key, s) }) {
			return name
		}
	}
	return ""
}

func oneEdit(a, b string) bool {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a = a[1:]
		b = b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a = a[:len(a)-1]
		b = b[:len(b)-1]
	}
	return len(a) <= 1 && len(b) <= 1 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}

// option applies the word key=value to m.
func (p *parser) option(w word, m *mention) *ParseError {
	key, value, ok := strings.Cut(w.text, "=")
	if _, number := atoi(w.text, MaxSlots); number {
		return w.fault("expected key=value; write slots=" + w.text)
	}
	if !ok || key == "" {
		return w.fault("expected key=value, with one of the keys " + keys)
	}
	k := canonical(key)
	if near := mistyped(key); k == "" && near != "" { // ranks or hosts would be missing
		return w.fault(fmt.Sprintf("gorun does not know the key %q; did you mean %s=%s?", key, near, value))
	}
	if k == "" {
		if !p.ignored[key] {
			p.ignored[key] = true
			unknown := w.fault(fmt.Sprintf("gorun does not know the key %q and ignores it; the keys are %s", key, keys))
			unknown.File = p.list.name
			p.list.Warnings = append(p.list.Warnings, unknown.Error())
		}
		return nil
	}
	if m.given[k] {
		return w.fault(k + " is given twice on this line")
	}
	m.given[k] = true
	return m.set(w, k, value)
}

// set sets the field of m for a key.
func (m *mention) set(w word, key, value string) *ParseError {
	h := &m.entry.host
	number := func(field *int, limit int) *ParseError {
		var ok bool
		if *field, ok = atoi(value, limit); !ok {
			return w.fault(fmt.Sprintf("%s must be a whole number from 1 to %d", key, limit))
		}
		return nil
	}
	switch key {
	case keySlots:
		if h.Auto = isAuto(value); h.Auto {
			return nil
		}
		if err := number(&h.Slots, MaxSlots); err != nil {
			err.Msg += ", or auto for one per core"
			return err
		}
		return nil
	case keyMaxSlots:
		return number(&h.MaxSlots, MaxSlots)
	case keyPort:
		return number(&h.Port, MaxPort)
	case keyGPUs:
		if value == "0" {
			return nil
		}
		return number(&h.GPUs, MaxSlots)
	}
	if !validUser(value) {
		return w.fault(badUser)
	}
	h.User = value
	return nil
}

func isAuto(value string) bool { return value == "*" || value == "auto" }

// atoi parses a decimal number from 1 to limit, digits only.
func atoi(s string, limit int) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil && 1 <= n && n <= uint64(limit)
}
