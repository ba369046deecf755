package elastic

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/gorun/gorun/hostfile"
)

// Limits of a discovery script's output.
const (
	MaxOutput = 1 << 20 // bytes
	MaxLines  = 10_000  // lines, and hosts
)

// Parse parses the output of a discovery script: one host per line in the hostfile's grammar,
// mostly "host" or "host:slots". A host without slots gets slots. The first invalid line is a
// [*hostfile.ParseError] with its number, and nothing of the output counts. The slots of a repeated
// host add up, as in a hostfile. Empty output is no host and no error.
func Parse(name string, output []byte, slots int) ([]hostfile.Host, error) {
	fault := func(line int, format string, args ...any) error {
		return &hostfile.ParseError{File: name, Line: line, Msg: fmt.Sprintf(format, args...)}
	}
	if len(output) > MaxOutput {
		return nil, fault(0, "more than %d bytes; print a host a line", MaxOutput)
	}
	if lines := bytes.Count(output, []byte("\n")); lines > MaxLines {
		return nil, fault(MaxLines+1, "more than %d lines; print a host a line", MaxLines)
	}
	var hosts []hostfile.Host
	type mention struct{ line, index int }
	first := map[string]mention{}
	n := 0
	for text := range strings.Lines(string(output)) {
		n++
		found, err := parseLine(name, n, text, slots)
		if err != nil {
			return nil, err
		}
		for _, h := range found {
			before, known := first[h.Name]
			switch {
			case h.Auto:
				return nil, fault(n, "%s: a discovery script says how many slots there are: write a number, as in %s:4",
					h.Name, h.Name)
			case !known && len(hosts) == MaxLines:
				return nil, fault(n, "more than %d hosts", MaxLines)
			case !known:
				first[h.Name] = mention{n, len(hosts)}
				hosts = append(hosts, h)
			default:
				same := &hosts[before.index]
				if same.User != h.User || same.Port != h.Port {
					return nil, fault(n, "%s is on line %d too, with another user or port; name each host once", h.Name,
						before.line)
				}
				if same.Slots += h.Slots; same.Slots > hostfile.MaxSlots {
					return nil, fault(n, "the slots of %s add up to more than %d", h.Name, hostfile.MaxSlots)
				}
			}
		}
	}
	return hosts, nil
}

// parseLine parses the hosts of one line; a blank line or a comment has none.
func parseLine(name string, n int, text string, slots int) ([]hostfile.Host, error) {
	text = strings.TrimSpace(text)
	if n == 1 {
		text = strings.TrimPrefix(text, "\ufeff")
	}
	if text == "" || text[0] == '#' {
		return nil, nil
	}
	list, err := hostfile.Parse(name, strings.NewReader(withSlots(text, slots)))
	if err == nil && list.Relative() {
		err = &hostfile.ParseError{File: name, Word: text, Msg: "not a host; print those that there are, one a line"}
	}
	var hosts []hostfile.Host
	if err == nil {
		hosts, err = list.Hosts()
	}
	if bad, is := errors.AsType[*hostfile.ParseError](err); is {
		bad.Line = n
		return nil, bad
	}
	return hosts, err
}

// withSlots appends slots to a line that is a bare name or address.
func withSlots(line string, slots int) string {
	if slots < 1 {
		return line
	}
	count := ":" + strconv.Itoa(slots)
	if a, err := netip.ParseAddr(line); err == nil && a.Is6() {
		return "[" + line + "]" + count
	}
	if strings.ContainsAny(line, "^+#/= \t") || !strings.HasSuffix(line, "]") && strings.Contains(line, ":") {
		return line
	}
	return line + count
}
