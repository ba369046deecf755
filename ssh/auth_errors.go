package ssh

import (
	"fmt"
	"slices"
	"strings"
)

// AuthError reports that the server refused the user.
type AuthError struct {
	Target
	User     string
	Tried    []Key         // keys that were offered, in order
	Unusable []UnusableKey // keys that were not offered
	Methods  []string      // methods that the server accepts, if it named them
	Others   []string      // those of Methods that this package lacks and ssh(1) may use
	Said     string        // the server's message, made printable
	Err      error         // error that ended the connection; nil if all keys were refused
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

// takesKeys is also true if the server has not named its methods.
func (e *AuthError) takesKeys() bool {
	return len(e.Methods) == 0 || slices.Contains(e.Methods, "publickey")
}

// brokenOff reports whether the server closed the connection before it asked for a key.
func (e *AuthError) brokenOff() bool { return e.Err != nil && len(e.Methods) == 0 }

func (e *AuthError) Hint() string {
	if e.brokenOff() && len(e.Tried) == 0 {
		return "see the server's log: journalctl -u ssh"
	}
	if !e.takesKeys() {
		return "have key authentication allowed on that host (PubkeyAuthentication in its sshd_config); passwords " +
			"are never asked for here"
	}
	for _, key := range e.Unusable {
		if key.Locked {
			return "unlock the key first: ssh-add " + key.Source
		}
	}
	host, port := e.hostPort()
	if len(e.Tried) == 0 {
		return fmt.Sprintf("make a key and install it: ssh-keygen -t ed25519 && ssh-copy-id -p %s %s@%s", port, e.User,
			host)
	}
	return fmt.Sprintf("install a key there, or check the user name: ssh-copy-id -p %s %s@%s", port, e.User, host)
}
