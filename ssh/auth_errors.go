package ssh

import (
	"fmt"
	"slices"
	"strings"
)

// AuthError says that the server did not let the user in.
type AuthError struct {
	Target
	User     string
	Tried    []Key         // offered, in order
	Unusable []UnusableKey // not offered
	Methods  []string      // what the server would take, if it said so
	Others   []string      // those of Methods that the configuration lets ssh(1) use and this package lacks
	Said     string        // the server's message, made printable
	Err      error         // how the server broke off, nil if we ran out of keys
}

func (e *AuthError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s is not let in", e.Target, printable(e.User))
	if !e.takesKeys() {
		fmt.Fprintf(&b, ": the server takes only %s", printable(strings.Join(e.Methods, ", ")))
	} else if len(e.Tried) == 0 && !e.brokenOff() {
		b.WriteString(": no key to offer")
	}
	list(&b, "tried", e.Tried)
	list(&b, "not usable", e.Unusable)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Said != "" {
		fmt.Fprintf(&b, ": the server says %q", e.Said)
	}
	return b.String()
}

func list[K fmt.Stringer](b *strings.Builder, what string, keys []K) {
	for i, key := range keys {
		separator := ", "
		if i == 0 {
			separator = "; " + what + " "
		}
		b.WriteString(separator + key.String())
	}
}

func (e *AuthError) Unwrap() error { return e.Err }

// takesKeys is true as well when the server has not said what it takes.
func (e *AuthError) takesKeys() bool {
	return len(e.Methods) == 0 || slices.Contains(e.Methods, "publickey")
}

// brokenOff is true when the server left before it asked for a key.
func (e *AuthError) brokenOff() bool { return e.Err != nil && len(e.Methods) == 0 }

func (e *AuthError) Hint() string {
	if e.brokenOff() && len(e.Tried) == 0 {
		return "see the server's log: journalctl -u ssh"
	}
	if !e.takesKeys() {
		return "have key authentication allowed on that host (PubkeyAuthentication in its sshd_config); passwords are never asked for here"
	}
	for _, key := range e.Unusable {
		if key.Locked {
			return "unlock the key first: ssh-add " + key.Source
		}
	}
	host, port := e.hostPort()
	if len(e.Tried) == 0 {
		return fmt.Sprintf("make a key and install it: ssh-keygen -t ed25519 && ssh-copy-id -p %s %s@%s", port, e.User, host)
	}
	return fmt.Sprintf("install a key there, or check the user name: ssh-copy-id -p %s %s@%s", port, e.User, host)
}
