package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gorun/gorun/ssh/internal/knownhosts"
)

// hostKeys verifies a host's key against the known_hosts files of its settings.
type hostKeys struct {
	settings settings
	target   Target
	resolver *Resolver                     // reader of the files; may be nil
	files    []*knownhosts.File            // known_hosts files that exist
	found    map[string][]knownhosts.Entry // entries by name, cached because comparing with hashed names is slow
	ordered  []knownhosts.Entry            // entries that only count for the order of algorithms
	accepted xssh.PublicKey                // last accepted key
	refusal  error                         // error of the last refused key
}

func newHostKeys(s settings, t Target, r *Resolver) (*hostKeys, error) {
	k := &hostKeys{settings: s, target: t, resolver: r}
	if err := k.load(); err != nil {
		return nil, &ConfigError{s.alias, err}
	}
	return k, nil
}

func (k *hostKeys) load() error {
	k.files = nil
	k.found = map[string][]knownhosts.Entry{}
	for _, path := range slices.Concat(k.settings.userKnownHosts, k.settings.globalKnownHosts) {
		file, err := k.resolver.knownHosts(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		k.files = append(k.files, file)
	}
	return nil
}

// hostname returns the host's name in certificates. HostKeyAlias replaces it.
func (k *hostKeys) hostname() string {
	return strings.ToLower(or(k.settings.hostKeyAlias, k.settings.hostname))
}

// names returns the host's names in the files. Like ssh, it accepts an entry without a port if none
// with the port says anything.
func (k *hostKeys) names() []string {
	if k.settings.hostKeyAlias != "" || k.settings.port == 22 {
		return []string{k.hostname()}
	}
	return []string{fmt.Sprintf("[%s]:%d", k.hostname(), k.settings.port), k.hostname()}
}

// known returns the entries of a name.
func (k *hostKeys) known(name string) []knownhosts.Entry {
	entries, looked := k.found[name]
	if looked {
		return entries
	}
	for _, file := range k.files {
		entries = append(entries, file.Of(name)...)
	}
	k.found[name] = entries
	return entries
}

// order asks KnownHostsCommand for keys of the host, for algorithms. Like ssh, it names no port.
func (k *hostKeys) order(ctx context.Context) error {
	said, err := k.commanded(ctx, forOrder, k.hostname(), nil)
	if err != nil {
		return err
	}
	for _, name := range k.names() {
		k.ordered = append(k.ordered, said.Of(name)...)
	}
	return nil
}

// algorithms lists the host key algorithms to request: first those of known keys, so that a server
// with several keys shows a known one, then the rest, so that an unknown host fails because of its
// key and not because of algorithms. SHA-1 is excluded.
func (k *hostKeys) algorithms() []string {
	supported := xssh.SupportedAlgorithms().HostKeys
	isCert := func(algorithm string) bool { return strings.Contains(algorithm, "-cert-") }
	var certs, first, rest []string
	var keys []knownhosts.Entry
	for _, name := range k.names() {
		if keys = slices.Concat(k.known(name), k.ordered); len(keys) > 0 {
			break
		}
	}
	for _, algorithm := range supported {
		switch {
		case isCert(algorithm):
			certs = append(certs, algorithm)
		case slices.ContainsFunc(keys, func(e knownhosts.Entry) bool {
			return e.Marker == knownhosts.Key && signs(e.Key.Type(), algorithm)
		}):
			first = append(first, algorithm)
		default:
			rest = append(rest, algorithm)
		}
	}
	if !slices.ContainsFunc(keys, func(e knownhosts.Entry) bool { return e.Marker == knownhosts.Authority }) {
		certs = nil // without an authority no certificate can be verified
	}
	return slices.Concat(certs, first, rest)
}

// signs reports whether a key type can sign with an algorithm.
func signs(keyType, algorithm string) bool {
	if keyType == xssh.KeyAlgoRSA {
		return algorithm == xssh.KeyAlgoRSASHA256 || algorithm == xssh.KeyAlgoRSASHA512
	}
	return keyType == algorithm
}

// callback verifies the key that the server has proved to own. Ctx bounds the wait for other
// writers of known_hosts.
func (k *hostKeys) callback(ctx context.Context) xssh.HostKeyCallback {
	return func(_ string, _ net.Addr, key xssh.PublicKey) error {
		// When a connection renews its session keys, long after ctx has ended, it shows the same
		// key again. ssh judges it once as well.
		if k.accepted != nil && bytes.Equal(k.accepted.Marshal(), key.Marshal()) {
			return nil
		}
		k.refusal = k.judge(ctx, key)
		var unknown *UnknownHostKeyError
		if k.settings.acceptNew && errors.As(k.refusal, &unknown) {
			k.refusal = k.learn(ctx, key)
		}
		if k.refusal == nil {
			k.accepted = key
		}
		return k.refusal
	}
}

// judge returns nil for a key that is the host's, and otherwise why it may not be.
func (k *hostKeys) judge(ctx context.Context, key xssh.PublicKey) error {
	for _, file := range k.settings.revokedHostKeys {
		switch revoked, err := knownhosts.RevokedIn(ctx, file, key); {
		case err != nil:
			return &RevocationListError{k.target, foreign{err}}
		case revoked:
			return &RevokedHostKeyError{k.target, k.fact(key), Place{File: file}}
		}
	}
	names := k.names()
	more, err := k.commanded(ctx, forHost, names[0], key)
	if err != nil {
		return err
	}
	said := knownhosts.Judge(slices.Concat(k.known(names[0]), more.Of(names[0])), key, k.hostname(), time.Now())
	if (said.Verdict == knownhosts.IsUnknown || said.Verdict == knownhosts.IsUncertain) && len(names) > 1 {
		loose := knownhosts.Judge(k.known(names[1]), key, k.hostname(), time.Now())
		// another server of the host may have another key
		if loose.Verdict != knownhosts.IsUnknown && loose.Verdict != knownhosts.IsChanged {
			said = loose
		}
	}
	switch said.Verdict {
	case knownhosts.IsKnown:
		return nil
	case knownhosts.IsRevoked:
		return &RevokedHostKeyError{k.target, k.fact(key), place(said.Entries[0])}
	case knownhosts.IsUncertain:
		return &HostCertificateError{k.target, k.fact(key), foreign{said.Err}}
	case knownhosts.IsChanged:
		var old []KnownHostKey
		for _, e := range said.Entries {
			old = append(old, KnownHostKey{k.fact(e.Key), place(e)})
		}
		return &ChangedHostKeyError{k.target, k.fact(key), old, k.settings.unchecked}
	}
	return k.unknown(key)
}

func (k *hostKeys) unknown(key xssh.PublicKey) error {
	e := &UnknownHostKeyError{
		Target:    k.target,
		Key:       k.fact(key),
		Name:      k.names()[0],
		Scan:      k.settings.learnCommand(),
		Unchecked: k.settings.unchecked,
	}
	for _, file := range k.files {
		e.Files = append(e.Files, file.Name)
	}
	return e
}

func (k *hostKeys) fact(key xssh.PublicKey) HostKey {
	return HostKey{Type: key.Type(), Fingerprint: xssh.FingerprintSHA256(key)}
}

func place(e knownhosts.Entry) Place { return Place{e.File, e.Line} }

// HostKey is a public host key in errors.
type HostKey struct {
	Type        string // "ssh-ed25519"
	Fingerprint string // "SHA256:…"
}

func (h HostKey) String() string { return h.Type + " " + h.Fingerprint }

// Place is a line of a file, or the whole file if Line is 0.
type Place struct {
	File string
	Line int
}

func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// KnownHostKey is a key that a known_hosts file holds.
type KnownHostKey struct {
	HostKey
	Place
}

func (k KnownHostKey) String() string { return k.HostKey.String() + " at " + k.Place.String() }
