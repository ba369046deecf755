package hostfile

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// mention is the parsed first word of a line: one entry per name.
type mention struct {
	entry
	names []string
	given map[string]bool // keys that are set
}

// parseMention parses a host's word: [user@]name[:slots], ^name, +nK or +e. A name
// may have ranges in brackets, or be an IPv6 address in brackets. hasSlots means that
// the line gives the slots elsewhere, so this word has none.
func parseMention(w word, hasSlots bool) (mention, *ParseError) {
	m := mention{entry: entry{at: w}, given: map[string]bool{}}
	switch {
	case w.text == "":
		return m, w.fault("a host name is missing; write hosts as in a:2,b")
	case w.text[0] == '+':
		return parseRelative(w)
	case w.text[0] == '^':
		m.kind = kindExclude
		return m, m.setNames(w, w.text[1:], true)
	}
	rest := w.text
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		m.host.User = rest[:at]
		rest = rest[at+1:]
		if !validUser(m.host.User) {
			return m, w.fault(badUser)
		}
		m.given[keyUser] = true
	}
	return m, m.setNames(w, rest, hasSlots)
}

// parseRelative parses +nK, +e and +e:N.
func parseRelative(w word) (mention, *ParseError) {
	m := mention{entry: entry{at: w}, names: []string{""}}
	switch text := strings.ToLower(w.text); {
	case strings.HasPrefix(text, "+n"):
		n, err := strconv.ParseUint(text[2:], 10, 31)
		if err == nil {
			m.kind = kindNth
			m.n = int(n)
			return m, nil
		}
	case text == "+e":
		m.kind = kindRest
		return m, nil
	case strings.HasPrefix(text, "+e:"):
		n, ok := atoi(text[3:], MaxHosts)
		if ok {
			m.kind = kindRest
			m.n = n
			return m, nil
		}
	}
	return m, w.fault("write +n0 for the first host of the allocation, +n1 for the second, +e for all that nothing " +
		"else names or +e:2 for two of them")
}

// setNames parses name[:slots].
func (m *mention) setNames(w word, s string, hasSlots bool) *ParseError {
	name, count, counted, msg := splitCount(s, hasSlots)
	if msg == "" {
		m.names, msg = allNames(name)
	}
	if msg != "" {
		return w.fault(msg)
	}
	if !counted {
		return nil
	}
	if m.kind == kindExclude {
		return w.fault("an excluded host has no slots; write ^" + name)
	}
	m.given[keySlots] = true
	if m.host.Auto = isAuto(count); m.host.Auto {
		return nil
	}
	var ok bool
	if m.host.Slots, ok = atoi(count, MaxSlots); !ok {
		return w.fault(fmt.Sprintf("the slots after the colon must be a whole number from 1 to %d, or auto for one "+
			"per core", MaxSlots))
	}
	return nil
}

// allNames validates a name and expands its ranges. msg is "" or the error.
func allNames(s string) (names []string, msg string) {
	if !strings.ContainsAny(s, "[]") || strings.HasPrefix(s, "[") && !startsRange(s) {
		name, msg := validName(s)
		return []string{name}, msg
	}
	expanded, msg := expand(s, MaxExpand)
	for i, name := range expanded {
		if expanded[i], msg = validName(name); msg != "" {
			return nil, fmt.Sprintf("it stands for %q: %s", name, msg)
		}
	}
	return expanded, msg
}

// startsRange reports whether the bracket at the beginning of s has numbers, not an
// IPv6 address.
func startsRange(s string) bool {
	inner, _, _ := strings.Cut(s[1:], "]")
	return inner != "" && strings.Trim(inner, digits+"-,") == ""
}

// splitCount splits name:count. A bare IPv6 address has colons, too: it is accepted
// if it is unambiguous, and refused if its last group could be a count. msg is "" or
// the error.
func splitCount(s string, hasSlots bool) (name, count string, counted bool, msg string) {
	if strings.HasPrefix(s, "[") && !startsRange(s) {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", "", false, notClosed
		}
		name := s[:end+1]
		rest := s[end+1:]
		count, counted = strings.CutPrefix(rest, ":")
		if rest != "" && !counted {
			return "", "", false, "after the bracket only a colon and the slots may follow"
		}
		return name, count, counted, ""
	}
	last := strings.LastIndexByte(s, ':')
	if last < 0 || strings.IndexByte(s, ':') == last || strings.Contains(s, "[") {
		if last <= strings.LastIndexByte(s, ']') {
			return s, "", false, ""
		}
		return s[:last], s[last+1:], true, ""
	}
	if !isIPv6(s) {
		return "", "", false, "not an IPv6 address, and a host name has no colons; write [address]:slots for an IPv6 " +
			"address with slots"
	}
	if _, number := atoi(s[last+1:], MaxSlots); number && isIPv6(s[:last]) && !hasSlots {
		return "", "", false, fmt.Sprintf("could mean two things; write [%s]:%s for an address and its slots, or "+
			"[%s] for the address alone", s[:last], s[last+1:], s)
	}
	return "[" + s + "]", "", false, ""
}

// validName validates a host name (labels as in RFC 1123, and underscores, which
// machines have), an IPv4 address, or an IPv6 address in brackets, which it removes.
// msg is "" or the error.
func validName(s string) (name, msg string) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		inner = strings.TrimSuffix(inner, "]")
		if !isIPv6(inner) {
			return "", "inside brackets only an IPv6 address may stand, or ranges such as f[01-16,20]"
		}
		return inner, ""
	}
	if s == "" {
		return "", "the host name is missing"
	}
	if len(s) > maxName {
		return "", longName
	}
	last := ""
	for label := range strings.SplitSeq(s, ".") {
		if !validLabel(label) {
			return "", "not a host name; names are letters, digits, '-' and '_', in parts of 1 to 63 joined by dots, " +
				"no part starting or ending with '-'"
		}
		last = label
	}
	// Resolvers parse a name that ends in a number as an IPv4 address, and short
	// ones in surprising ways: 4 is 0.0.0.4.
	if strings.Trim(last, digits) == "" {
		if a, err := netip.ParseAddr(s); err != nil || !a.Is4() {
			return "", "a name that ends in a number is an IPv4 address, and this is not a valid one"
		}
	}
	return s, ""
}

const (
	maxName = 253
	maxZone = 15 // of Linux's names of interfaces
	digits  = "0123456789"
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	badUser = "a user name is made of letters, digits, '.', '_' and '-', and does not start with '-'"
)

func validLabel(s string) bool {
	return 1 <= len(s) && len(s) <= 63 && s[0] != '-' && s[len(s)-1] != '-' &&
		strings.Trim(s, letters+digits+"_-") == ""
}

func validUser(s string) bool {
	return s != "" && s[0] != '-' && strings.Trim(s, letters+digits+"._-") == ""
}

// isIPv6 reports whether s is an IPv6 address. One of a link may have a zone, the interface of this
// machine that leads there: fe80::1%eth0.
func isIPv6(s string) bool {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is6() {
		return false
	}
	zone := a.Zone()
	return zone == "" ||
		a.IsLinkLocalUnicast() && len(zone) <= maxZone && strings.Trim(zone, letters+digits+"._-") == ""
}
