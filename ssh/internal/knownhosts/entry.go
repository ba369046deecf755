// Package knownhosts reads known_hosts files and decides by them on a host's key, as OpenSSH does
// (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT").
package knownhosts

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"strings"

	xssh "golang.org/x/crypto/ssh"
)

// Marker says what an entry's key is to its hosts.
type Marker string

const (
	Key       Marker = ""               // a key of the hosts
	Authority Marker = "cert-authority" // a key that signs their certificates
	Revoked   Marker = "revoked"        // a revoked key or authority
)

// Entry is one line of a known_hosts file.
type Entry struct {
	Marker Marker
	Key    xssh.PublicKey
	File   string
	Line   int // 1-based
	hosts
}

func parse(line []byte) (e Entry, ok bool) {
	line = bytes.Trim(line, " \t\r\n")
	if len(line) == 0 || line[0] == '#' {
		return Entry{}, false
	}
	words := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '\t' })
	marker, marked := strings.CutPrefix(words[0], "@")
	if marked {
		if words = words[1:]; marker != string(Authority) && marker != string(Revoked) {
			return Entry{}, false
		}
	} else {
		marker = ""
	}
	if len(words) < 3 {
		return Entry{}, false
	}
	blob, err := base64.StdEncoding.DecodeString(words[2])
	if err != nil {
		return Entry{}, false
	}
	key, err := xssh.ParsePublicKey(blob)
	if err != nil || key.Type() != words[1] {
		return Entry{}, false
	}
	return Entry{Marker: Marker(marker), Key: key, hosts: parseHosts(words[0])}, true
}

// hosts are the hosts of an entry: names and patterns, or one name that is hashed.
type hosts struct {
	list      string // names in lower case
	hashed    bool
	salt, sum string // salt and hash of the name; "" if they do not parse
}

func parseHosts(word string) hosts {
	text, hashed := strings.CutPrefix(word, "|1|")
	if !hashed {
		return hosts{list: strings.ToLower(word)}
	}
	first, second, _ := strings.Cut(text, "|")
	salt, err1 := base64.StdEncoding.DecodeString(first)
	sum, err2 := base64.StdEncoding.DecodeString(second)
	if err1 != nil || err2 != nil || len(sum) != sha1.Size {
		return hosts{hashed: true}
	}
	return hosts{hashed: true, salt: string(salt), sum: string(sum)}
}

// names returns the hosts if they are names, and neither patterns nor hashed. They match these and
// no others.
func (h hosts) names() (names []string, plain bool) {
	if h.hashed || strings.ContainsAny(h.list, "*?!") {
		return nil, false
	}
	return strings.Split(h.list, ","), true
}

// matches reports whether a host, by the name that [File.Of] takes, is one of them.
func (h hosts) matches(name string) bool {
	if h.hashed {
		mac := hmac.New(sha1.New, []byte(h.salt))
		mac.Write([]byte(name))
		return hmac.Equal(mac.Sum(nil), []byte(h.sum))
	}
	found := false
	for pattern := range strings.SplitSeq(h.list, ",") {
		pattern, negated := strings.CutPrefix(pattern, "!")
		if !like(pattern, name) {
			continue
		}
		if negated {
			return false
		}
		found = true
	}
	return found
}

// like reports whether name matches a pattern, in which * stands for any bytes and ? for one.
func like(pattern, name string) bool {
	star := -1
	next := 0 // position in name where matching resumes after the last star takes another byte
	p := 0
	n := 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star = p
			next = n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			next++
			p = star + 1
			n = next
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
