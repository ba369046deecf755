package ssh

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/prose"
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
	Partial  bool          // whether the server took a key and wants a second method
	Install  string        // command that installs a key, or shows the public key to install
	Err      error         // error that ended the connection; nil if all keys were refused
}

func (e *AuthError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s is not let in", e.Target, prose.Printable(e.User))
	methods := prose.Printable(strings.Join(e.Methods, ", "))
	if e.Partial {
		fmt.Fprintf(&b, ": the server took the key, and also wants %s", methods)
	} else if !e.takesKeys() {
		fmt.Fprintf(&b, ": the server takes only %s", methods)
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

// takesPasswords is also true if the server has not named its methods.
func takesPasswords(methods []string) bool {
	return len(methods) == 0 || slices.Contains(methods, "password") ||
		slices.Contains(methods, "keyboard-interactive")
}

// brokenOff reports whether the server closed the connection before it asked for a key.
func (e *AuthError) brokenOff() bool { return e.Err != nil && len(e.Methods) == 0 }

func (e *AuthError) Hint() string {
	if e.brokenOff() && len(e.Tried) == 0 {
		return "see the server's log: journalctl -u ssh"
	}
	if e.Partial {
		return "log in by hand over a connection that ssh shares (ControlMaster and ControlPath in the ssh " +
			"configuration), and have gorun use it: --launcher system-ssh"
	}
	if !e.takesKeys() {
		return "have key authentication allowed on that host (PubkeyAuthentication in its sshd_config); passwords " +
			"are never asked for here"
	}
	for _, key := range e.Unusable {
		if key.Remedy != "" {
			return key.Remedy
		}
	}
	for _, key := range e.Unusable {
		if key.Missing && len(e.Tried) > 0 {
			return "check the name " + key.Source + " after -i, or IdentityFile in the ssh configuration"
		}
	}
	install := "install a key there: " + e.Install
	if !takesPasswords(e.Methods) {
		install = fmt.Sprintf("have this key added to authorized_keys of %s there, since the server takes no "+
			"passwords: %s", prose.Printable(e.User), e.Install)
	}
	switch {
	case len(e.Tried) == 0:
		return "make a key, and " + install
	case e.Err != nil: // such as "Too many authentication failures"
		return "name the key for that host with -i FILE, or see the server's log: journalctl -u ssh"
	}
	return "check the user name, or " + install
}
