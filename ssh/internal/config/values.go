package config

import (
	"slices"
	"strings"
)

// Values returns the arguments of each keyword, in lower case, that count for a host, joined by
// blanks as ssh -G prints them. Keywords that may be given several times have several. An error
// says why only ssh can know: the values are then those without Match.
func (c *Config) Values(host string) (map[string][]string, error) {
	err := c.unsure
	if strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "" {
		err = errOddName
	}
	e := evaluation{host, map[string][]string{}}
	for _, f := range c.files {
		e.file(f, true)
	}
	return e.values, err
}

const errOddName = oddName("only ssh knows what it makes of such a host name")

type oddName string

func (e oddName) Error() string { return string(e) }

type evaluation struct {
	host   string
	values map[string][]string
}

// file takes the options of a file that is included, where include says so, in a block that is the
// host's.
func (e evaluation) file(f file, include bool) {
	active := include
	for _, l := range f {
		switch {
		case l.keyword == "host":
			active = include && matchesList(l.args, e.host)
		case l.keyword == "match":
			active = false
		case l.keyword == "include":
			for _, inner := range l.included {
				e.file(inner, active)
			}
		case active:
			e.set(l.keyword, strings.Join(l.args, " "))
		}
	}
}

// set takes an option unless an earlier line has set it.
func (e evaluation) set(keyword, value string) {
	switch keyword {
	case "identityfile", "certificatefile":
		if !slices.Contains(e.values[keyword], value) {
			e.values[keyword] = append(e.values[keyword], value)
		}
		return
	case "proxyjump", "proxycommand": // the first of the two counts
		if e.values["proxyjump"] != nil || e.values["proxycommand"] != nil {
			return
		}
	}
	if e.values[keyword] == nil {
		e.values[keyword] = []string{value}
	}
}

// matchesList reports whether a Host line's patterns mean host: one does, and no negated one.
func matchesList(patterns []string, host string) bool {
	found := false
	for _, p := range patterns {
		p, negated := strings.CutPrefix(p, "!")
		if !matches(p, host) {
			continue
		}
		if negated {
			return false
		}
		found = true
	}
	return found
}

// matches is ssh's pattern matching: * is any text, ? any character.
func matches(pattern, text string) bool {
	for ; pattern != ""; pattern, text = pattern[1:], text[1:] {
		if pattern[0] == '*' {
			rest := strings.TrimLeft(pattern, "*")
			for i := range len(text) + 1 {
				if matches(rest, text[i:]) {
					return true
				}
			}
			return false
		}
		if text == "" || pattern[0] != '?' && pattern[0] != text[0] {
			return false
		}
	}
	return text == ""
}

// Hosts returns the names on Host lines that stand for one host each.
func (c *Config) Hosts() []string { return hosts(c.files) }

func hosts(files []file) (names []string) {
	for _, f := range files {
		for _, l := range f {
			names = append(names, hosts(l.included)...)
			if l.keyword != "host" {
				continue
			}
			for _, name := range l.args {
				if !strings.ContainsAny(name, "*?!#") {
					names = append(names, name)
				}
			}
		}
	}
	return names
}
