package ssh

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	xssh "golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// hostKeys verifies a host's key against the known_hosts files of its settings.
type hostKeys struct {
	settings settings
	target   Target
	files    []string // those that exist
	db       *knownhosts.HostKeyDB
	spare    map[string]string // original file by the path of its cleaned copy
	refusal  error             // why the last key was refused
}

func newHostKeys(s settings, t Target) (*hostKeys, error) {
	k := &hostKeys{settings: s, target: t}
	if err := k.load(); err != nil {
		return nil, &ConfigError{s.alias, err}
	}
	return k, nil
}

// load reads the files. The library refuses a whole file for one line that it cannot parse, such as an unknown key type, so it
// gets a copy in which such lines are blank.
func (k *hostKeys) load() error {
	k.files, k.spare = nil, map[string]string{}
	var readable []string
	for _, file := range slices.Concat(k.settings.userKnownHosts, k.settings.globalKnownHosts) {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		k.files = append(k.files, file)
		clean := blankUnreadable(text)
		if bytes.Equal(clean, text) {
			readable = append(readable, file)
			continue
		}
		spare, err := writeTemp(clean)
		if err != nil {
			return err
		}
		defer os.Remove(spare)
		k.spare[spare] = file
		readable = append(readable, spare)
	}
	var err error
	k.db, err = knownhosts.NewDB(readable...)
	return err
}

// blankUnreadable empties the lines of a known_hosts file that do not parse, and
// keeps the line numbers.
func blankUnreadable(text []byte) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	for i, line := range lines {
		end := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		trimmed := bytes.Trim(end, " \t") // the library treats no other character as space
		if len(trimmed) == 0 || trimmed[0] == '#' {
			continue
		}
		if !readable(trimmed) {
			lines[i] = []byte("\n")
		}
	}
	return bytes.Join(lines, nil)
}

// readable reports whether the library accepts the line.
func readable(line []byte) bool {
	const longest = 60 << 10
	marker, _, key, _, _, err := xssh.ParseKnownHosts(line)
	words := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '\t' })
	if marker != "" {
		words = words[1:]
	}
	if err != nil || len(line) > longest || len(words) < 3 || words[0][0] == '@' || words[1] != key.Type() {
		return false
	}
	switch marker {
	case "revoked": // the library does not parse its hosts
		return true
	case "", "cert-authority":
		return readableHosts(words[0])
	}
	return false
}

// readableHosts reports whether the library accepts the hosts of a line.
func readableHosts(pattern string) bool {
	if hash, hashed := strings.CutPrefix(pattern, "|1|"); hashed {
		salt, sum, _ := strings.Cut(hash, "|")
		_, saltErr := base64.StdEncoding.DecodeString(salt)
		_, sumErr := base64.StdEncoding.DecodeString(sum)
		return saltErr == nil && sumErr == nil && strings.Contains(hash, "|")
	}
	for p := range strings.SplitSeq(pattern, ",") {
		host := strings.TrimPrefix(p, "!")
		_, _, err := net.SplitHostPort(host)
		if (host == "" && p != "") || strings.HasPrefix(host, "|") || (err != nil && strings.HasPrefix(host, "[")) {
			return false
		}
	}
	return true
}

func writeTemp(text []byte) (string, error) {
	f, err := os.CreateTemp("", "gorun-known-hosts-")
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// name returns the host's name in the files, as host:port. HostKeyAlias replaces host and port.
func (k *hostKeys) name() string {
	if k.settings.hostKeyAlias != "" {
		return strings.ToLower(net.JoinHostPort(k.settings.hostKeyAlias, "22"))
	}
	return strings.ToLower(k.settings.address())
}

// known returns the entries for the host. Like ssh, it accepts an entry without a port if there is none with the port; loose is
// then true.
func (k *hostKeys) known() (name string, keys []knownhosts.PublicKey, loose bool) {
	name = k.name()
	keys = k.db.HostKeys(name)
	host, port, _ := net.SplitHostPort(name)
	if len(keys) > 0 || port == "22" {
		return name, keys, false
	}
	plain := net.JoinHostPort(host, "22")
	return plain, k.db.HostKeys(plain), true
}

// algorithms lists the host key algorithms to request: first those of known keys, so that a server with several keys shows a
// known one, then the rest, so that an unknown host fails because of its key and not because of algorithms. SHA-1 is excluded.
func (k *hostKeys) algorithms() []string {
	supported := xssh.SupportedAlgorithms().HostKeys
	isCert := func(algorithm string) bool { return strings.Contains(algorithm, "-cert-") }
	var certs, first, rest []string
	_, keys, _ := k.known()
	for _, algorithm := range supported {
		switch {
		case isCert(algorithm):
			certs = append(certs, algorithm)
		case slices.ContainsFunc(keys, func(key knownhosts.PublicKey) bool { return !key.Cert && signs(key.Type(), algorithm) }):
			first = append(first, algorithm)
		default:
			rest = append(rest, algorithm)
		}
	}
	if !slices.ContainsFunc(keys, func(key knownhosts.PublicKey) bool { return key.Cert }) {
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

// callback verifies the key that the server has proved to own. Ctx bounds the wait for other writers of known_hosts.
func (k *hostKeys) callback(ctx context.Context) xssh.HostKeyCallback {
	return func(_ string, remote net.Addr, key xssh.PublicKey) error {
		k.refusal = k.judge(remote, key)
		var unknown *UnknownHostKeyError
		if k.settings.acceptNew && errors.As(k.refusal, &unknown) {
			k.refusal = k.learn(ctx, remote, key)
		}
		return k.refusal
	}
}

func (k *hostKeys) judge(remote net.Addr, key xssh.PublicKey) error {
	name, known, loose := k.known()
	check := k.db.HostKeyCallback()
	err := check(name, remote, key)
	if cert, ok := key.(*xssh.Certificate); ok && err != nil {
		if check(name, remote, cert.Key) == nil {
			return nil // known without its certificate
		}
		return &HostCertificateError{k.target, k.fact(key), foreign{err}}
	}
	var mismatch *xknownhosts.KeyError
	var revoked *xknownhosts.RevokedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &revoked):
		return &RevokedHostKeyError{k.target, k.fact(key), k.place(revoked.Revoked)}
	case !errors.As(err, &mismatch):
		return fmt.Errorf("%s: host key %s: %w", k.target, k.fact(key), err)
	}
	old := k.plain(mismatch.Want, known)
	if len(old) == 0 || loose {
		return k.unknown(key)
	}
	return &ChangedHostKeyError{k.target, k.fact(key), old}
}

func (k *hostKeys) unknown(key xssh.PublicKey) error {
	e := &UnknownHostKeyError{Target: k.target, Key: k.fact(key), Name: xknownhosts.Normalize(k.name()), Files: k.files}
	if len(k.settings.userKnownHosts) > 0 && k.settings.hostKeyAlias == "" {
		e.Scan = fmt.Sprintf("ssh-keyscan -p %d %s >> %s", k.settings.port, k.settings.hostname, k.settings.userKnownHosts[0])
	}
	return e
}

// plain drops certificate authorities, which are not keys of the host.
func (k *hostKeys) plain(want []xknownhosts.KnownKey, known []knownhosts.PublicKey) []KnownHostKey {
	var keys []KnownHostKey
	for _, w := range want {
		authority := slices.ContainsFunc(known, func(p knownhosts.PublicKey) bool {
			return p.Cert && bytes.Equal(p.Marshal(), w.Key.Marshal())
		})
		if !authority {
			keys = append(keys, KnownHostKey{k.fact(w.Key), k.place(w)})
		}
	}
	return keys
}

func (k *hostKeys) fact(key xssh.PublicKey) HostKey {
	return HostKey{Type: key.Type(), Fingerprint: xssh.FingerprintSHA256(key)}
}

func (k *hostKeys) place(key xknownhosts.KnownKey) Place {
	return Place{or(k.spare[key.Filename], key.Filename), key.Line}
}

// HostKey is a public host key in errors.
type HostKey struct {
	Type        string // "ssh-ed25519"
	Fingerprint string // "SHA256:…"
}

func (h HostKey) String() string { return h.Type + " " + h.Fingerprint }

// Place is a line of a file.
type Place struct {
	File string
	Line int
}

func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// KnownHostKey is a key that a known_hosts file holds.
type KnownHostKey struct {
	HostKey
	Place
}

func (k KnownHostKey) String() string { return k.HostKey.String() + " at " + k.Place.String() }
