package hostfile

import (
	"fmt"
	"net/netip"
	"strings"
)

// parseHost reads a host's own word: [user@]name[:slots], where name may be an
// IPv6 address in brackets. hasSlots says that the slots are given elsewhere on
// the line, so that none can be meant here. Slots is 0 where no count is written.
func parseHost(w word, hasSlots bool) (Host, *ParseError) {
	var h Host
	if w.text == "" {
		return h, w.fault("a host name is missing; write hosts as in a:2,b")
	}
	rest := w.text
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		h.User, rest = rest[:at], rest[at+1:]
		if !validUser(h.User) {
			return h, w.fault(badUser)
		}
	}
	name, count, counted, msg := splitCount(rest, hasSlots)
	if msg == "" {
		h.Name, msg = validName(name)
	}
	if msg != "" {
		return h, w.fault(msg)
	}
	if counted {
		var ok bool
		if h.Slots, ok = atoi(count, MaxSlots); !ok {
			return h, w.fault(fmt.Sprintf("the slots after the colon must be a whole number from 1 to %d", MaxSlots))
		}
	}
	return h, nil
}

// splitCount parts name:count. A bare IPv6 address has colons of its own: it is
// taken for an address where it can be nothing else, and refused where its last
// group could also be a count. msg is "" or says what is wrong.
func splitCount(s string, hasSlots bool) (name, count string, counted bool, msg string) {
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", "", false, "the bracket is not closed"
		}
		name, rest := s[:end+1], s[end+1:]
		count, counted = strings.CutPrefix(rest, ":")
		if rest != "" && !counted {
			return "", "", false, "after the bracket only a colon and the slots may follow"
		}
		return name, count, counted, ""
	}
	last := strings.LastIndexByte(s, ':')
	if last < 0 || strings.IndexByte(s, ':') == last {
		name, count, counted = strings.Cut(s, ":")
		return name, count, counted, ""
	}
	if !isIPv6(s) {
		return "", "", false, "not an IPv6 address, and a host name has no colons; write [address]:slots for an IPv6 address with slots"
	}
	if _, number := atoi(s[last+1:], MaxSlots); number && isIPv6(s[:last]) && !hasSlots {
		return "", "", false, fmt.Sprintf("could mean two things; write [%s]:%s for an address and its slots, or [%s] for the address alone", s[:last], s[last+1:], s)
	}
	return "[" + s + "]", "", false, ""
}

// validName checks a host name (labels as in RFC 1123, where underscores are
// let through because machines have them), an IPv4 address, or an IPv6 address
// in brackets, which it takes off. msg is "" or says what is wrong.
func validName(s string) (name, msg string) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		inner = strings.TrimSuffix(inner, "]")
		if !isIPv6(inner) {
			return "", "inside brackets only an IPv6 address may stand"
		}
		return inner, ""
	}
	if s == "" {
		return "", "the host name is missing"
	}
	if len(s) > 253 {
		return "", "a host name has at most 253 characters"
	}
	last := ""
	for label := range strings.SplitSeq(s, ".") {
		if !validLabel(label) {
			return "", "not a host name; names are letters, digits, '-' and '_', in parts of 1 to 63 joined by dots, no part starting or ending with '-'"
		}
		last = label
	}
	// A resolver reads a name that ends in a number as an IPv4 address, and a
	// short one in surprising ways: 4 is 0.0.0.4.
	if strings.Trim(last, digits) == "" {
		if a, err := netip.ParseAddr(s); err != nil || !a.Is4() {
			return "", "a name that ends in a number is an IPv4 address, and this is not a valid one"
		}
	}
	return s, ""
}

const (
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

// isIPv6 reports whether s is an IPv6 address without a zone. A zone names an
// interface of one machine, which means nothing to the other hosts of a job.
func isIPv6(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is6() && a.Zone() == ""
}
