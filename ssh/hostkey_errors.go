package ssh

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/prose"
)

// UnknownHostKeyError reports that no known_hosts file has the host.
type UnknownHostKeyError struct {
	Target
	Key   HostKey
	Name  string   // the host's name in known_hosts files
	Files []string // files that were read
	Scan  string   // command that adds the host's keys, if there is one
	// Unchecked is whether the ssh configuration says StrictHostKeyChecking no.
	Unchecked bool
}

func (e *UnknownHostKeyError) Error() string {
	where := strings.Join(e.Files, ", ")
	if where == "" {
		where = "any file, for there is none"
	}
	return fmt.Sprintf("%s: unknown host key %s: no %s in %s", e.Target, e.Key, e.Name, where)
}

func (e *UnknownHostKeyError) Hint() string {
	hint := "to let new hosts in unseen: --host-keys=accept-new"
	if e.Unchecked {
		hint = alwaysChecks + "; " + hint
	}
	if e.Scan != "" {
		hint = "ask the host's keeper whether the fingerprint is right, then: " + e.Scan + "\n" + hint
	}
	return hint
}

const alwaysChecks = "gorun checks host keys also where the ssh configuration says StrictHostKeyChecking no"

// ChangedHostKeyError reports that the host has another key than before: it was reinstalled, or the
// connection is intercepted.
type ChangedHostKeyError struct {
	Target
	Key   HostKey
	Known []KnownHostKey // the keys in the files, at least one
	// Unchecked is whether the ssh configuration says StrictHostKeyChecking no.
	Unchecked bool
}

func (e *ChangedHostKeyError) Error() string {
	known := make([]string, len(e.Known))
	for i, k := range e.Known {
		known[i] = k.String()
	}
	return fmt.Sprintf("%s: host key changed: it is now %s, known is %s", e.Target, e.Key, strings.Join(known, ", "))
}

func (e *ChangedHostKeyError) Hint() string {
	var files []string
	lines := map[string][]string{} // key: file
	for _, key := range e.Known {
		if lines[key.File] == nil {
			files = append(files, key.File)
		}
		lines[key.File] = append(lines[key.File], fmt.Sprintf("%dd", key.Line))
	}
	var commands []string
	for _, file := range files {
		commands = append(commands, "sed -i "+prose.Quoted(strings.Join(lines[file], ";"), file))
	}
	hint := "someone may be listening in. If the host was set up anew, remove what is known of it: " +
		strings.Join(commands, " && ")
	if e.Unchecked {
		hint += "\n" + alwaysChecks
	}
	return hint
}

// RevokedHostKeyError reports that a known_hosts file revokes the host's key.
type RevokedHostKeyError struct {
	Target
	Key   HostKey
	Place Place // place of the @revoked line
}

func (e *RevokedHostKeyError) Error() string {
	return fmt.Sprintf("%s: host key %s is revoked by %s", e.Target, e.Key, e.Place)
}

func (e *RevokedHostKeyError) Hint() string {
	return "do not use this host before it has got a new key"
}

// RevocationListError reports that a file of RevokedHostKeys cannot be read. Then no host key is
// trusted, as with ssh.
type RevocationListError struct {
	Target
	Err error
}

func (e *RevocationListError) Error() string {
	return fmt.Sprintf("%s: read RevokedHostKeys: %v", e.Target, e.Err)
}
func (e *RevocationListError) Unwrap() error { return e.Err }
func (e *RevocationListError) Hint() string {
	if temporary, is := errors.AsType[*trust.TemporaryError](e.Err); is {
		return temporary.Hint()
	}
	return "correct the file, or RevokedHostKeys in the ssh configuration: without it no host key is trusted"
}

// KnownHostsCommandError reports that KnownHostsCommand cannot be asked, which might revoke a key.
type KnownHostsCommandError struct {
	Target
	Err error
}

func (e *KnownHostsCommandError) Error() string {
	return fmt.Sprintf("%s: run KnownHostsCommand: %v", e.Target, e.Err)
}
func (e *KnownHostsCommandError) Unwrap() error { return e.Err }
func (e *KnownHostsCommandError) Hint() string {
	return "correct KnownHostsCommand in the ssh configuration: without it no host key is trusted"
}

// HostCertificateError reports that the host's certificate is invalid.
type HostCertificateError struct {
	Target
	Key HostKey
	Err error // reason: expired, for another name, or revoked
}

func (e *HostCertificateError) Error() string {
	return fmt.Sprintf("%s: host certificate %s: %v", e.Target, e.Key, e.Err)
}
func (e *HostCertificateError) Unwrap() error { return e.Err }
func (e *HostCertificateError) Hint() string {
	return "have the host's key signed again by its authority"
}
