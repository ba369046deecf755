package ssh

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gorun/gorun/internal/prose"
)

// Config says how to reach a host. Only Host is needed.
type Config struct {
	// Host is the host as the user wrote it: a name, an address, or an alias
	// from ssh_config.
	Host string

	// User and Port override the ssh configuration unless zero.
	User string
	Port int

	// ConfigFile is read in the place of ~/.ssh/config and the system's file,
	// like ssh -F. Empty means those.
	ConfigFile string

	// IdentityFiles are private keys to try before the configured ones, like
	// ssh -i. They serve for jump hosts too.
	IdentityFiles []string

	// Resolver, if set, is shared by the hosts of a job, so that files are read once.
	Resolver *Resolver

	// AcceptNew lets a host that no known_hosts file knows in and remembers its
	// key. A host whose key differs from the known one stays shut out.
	AcceptNew bool

	// ConnectTimeout bounds name lookup and TCP connect. Zero means
	// ConnectTimeout of the ssh configuration, or else 10 s.
	ConnectTimeout time.Duration

	// HandshakeTimeout bounds all from the open socket to the authenticated
	// connection. Zero means 20 s.
	HandshakeTimeout time.Duration
}

const (
	defaultConnectTimeout   = 10 * time.Second
	defaultHandshakeTimeout = 20 * time.Second
)

// settings is what the ssh configuration and a Config say together about a host.
// Paths are expanded, and "none" has become empty.
type settings struct {
	alias    string
	hostname string
	port     int
	user     string

	identityFiles    []identityFile
	certificateFiles []string
	identitiesOnly   bool
	agent            string   // socket, empty for no agent
	others           []string // methods that ssh(1) may use there and this package lacks

	jump         string // comma-separated hops, as ProxyJump has them
	proxyCommand string

	userKnownHosts   []string
	globalKnownHosts []string
	revokedHostKeys  []string // files of revoked host keys
	hostKeyAlias     string
	acceptNew        bool
	hashKnownHosts   bool

	knownHostsCommand string // as it is written, or ""

	connectTimeout   time.Duration
	handshakeTimeout time.Duration
	rekey            uint64 // bytes after which keys are changed; 0: as many as the cipher allows. Few in tests

	unchecked bool     // StrictHostKeyChecking is no, which gorun does not obey
	byHand    []string // arguments with which ssh(1) and ssh-copy-id(1) reach the host
}

// shell returns a command line of ssh(1) or ssh-copy-id(1) for the host. program may have options.
func (s settings) shell(program string, command ...string) string {
	return program + " " + prose.Quoted(append(slices.Clone(s.byHand), command...)...)
}

// direct reports whether the host is reached without a jump host or a proxy command.
func (s settings) direct() bool { return s.jump == "" && s.proxyCommand == "" }

// identityFile is a private key to try. One that is wanted is worth a word when
// it is missing; the others are only where ssh looks by habit.
type identityFile struct {
	path   string
	wanted bool
}

func (s settings) address() string { return net.JoinHostPort(s.hostname, strconv.Itoa(s.port)) }

func (s settings) target() Target { return Target{Host: s.alias, Addr: s.address()} }

// check refuses what must not reach the command line of ssh -G, nor a shell by
// way of %h and %r in a ProxyCommand.
func (c Config) check() error {
	if err := checkWord("host", c.Host); err != nil {
		return err
	}
	if c.User != "" {
		if err := checkWord("user", c.User); err != nil {
			return err
		}
	}
	if c.Port < 0 || c.Port > 65535 {
		return fmt.Errorf("port %d is not between 1 and 65535", c.Port)
	}
	return nil
}

func checkWord(what, word string) error {
	if word == "" {
		return errors.New("no " + what + " given")
	}
	if word[0] == '-' {
		return fmt.Errorf("%s %q begins with a dash", what, word)
	}
	for _, r := range word {
		if unicode.IsControl(r) || unicode.IsSpace(r) || strings.ContainsRune("'`\"$\\;&<>|(){}*?!#", r) {
			return fmt.Errorf("%s %q holds %q", what, word, r)
		}
	}
	return nil
}

// merge is the pure heart of the configuration: what get says about the host,
// with c's overrides. get returns the values of a keyword, given in lower case,
// or none.
func (c Config) merge(get func(keyword string) []string, env environment) (settings, error) {
	raw := func(keyword string) string {
		if values := get(keyword); len(values) > 0 {
			return values[0]
		}
		return ""
	}
	first := func(keyword string) string {
		if v := raw(keyword); v != "none" {
			return v
		}
		return ""
	}
	yes := func(keyword string) bool { v := first(keyword); return v == "yes" || v == "true" }
	s := settings{
		alias:            c.Host,
		hostname:         or(first("hostname"), c.Host),
		user:             or(c.User, first("user"), env.user),
		port:             c.Port,
		identitiesOnly:   yes("identitiesonly"),
		jump:             first("proxyjump"),
		hostKeyAlias:     first("hostkeyalias"),
		hashKnownHosts:   yes("hashknownhosts"),
		acceptNew:        c.AcceptNew || first("stricthostkeychecking") == "accept-new",
		handshakeTimeout: c.HandshakeTimeout,

		knownHostsCommand: first("knownhostscommand"),
	}
	switch first("stricthostkeychecking") {
	case "no", "off", "false":
		s.unchecked = true
	}
	if s.port == 0 {
		port, err := strconv.Atoi(or(first("port"), "22"))
		if err != nil || port < 1 || port > 65535 {
			return s, fmt.Errorf("port %q is not between 1 and 65535", first("port"))
		}
		s.port = port
	}
	if _, err := netip.ParseAddr(s.hostname); err != nil { // the zone of an address is no token
		s.hostname = strings.ReplaceAll(s.hostname, "%h", c.Host)
	}
	if err := checkWord("host name", s.hostname); err != nil {
		return s, err
	}
	if err := checkWord("user", s.user); err != nil {
		return s, err
	}
	s.connectTimeout = c.timeout(first("connecttimeout"))
	if s.handshakeTimeout <= 0 {
		s.handshakeTimeout = defaultHandshakeTimeout
	}
	for _, method := range []struct{ keyword, name string }{{"gssapiauthentication", "gssapi-with-mic"},
		{"hostbasedauthentication", "hostbased"}} {
		if yes(method.keyword) {
			s.others = append(s.others, method.name)
		}
	}
	x := env.expander(s)
	s.proxyCommand = x.tokens(first("proxycommand"))
	s.agent = x.agent(raw("identityagent"))
	s.identityFiles = c.identities(get("identityfile"), x)
	s.certificateFiles = x.paths(get("certificatefile"))
	s.userKnownHosts = x.paths(knownHostsFiles(get("userknownhostsfile"), "~/.ssh/known_hosts ~/.ssh/known_hosts2"))
	s.globalKnownHosts = x.paths(knownHostsFiles(get("globalknownhostsfile"),
		"/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"))
	s.revokedHostKeys = x.paths(get("revokedhostkeys"))
	return s, nil
}

// or returns the first string that is not empty.
func or(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

// timeout takes ssh's ConnectTimeout: seconds, or a number with a unit.
func (c Config) timeout(configured string) time.Duration {
	if c.ConnectTimeout > 0 {
		return c.ConnectTimeout
	}
	if seconds, err := strconv.Atoi(configured); err == nil && seconds > 0 {
		return time.Duration(min(seconds, math.MaxInt32)) * time.Second
	}
	if d, err := time.ParseDuration(configured); err == nil && d > 0 {
		return d
	}
	return defaultConnectTimeout
}

// knownHostsFiles splits a list of files as ssh -G prints it, with blanks between and no quotes. A
// word that does not begin as a path belongs to the name before it, unless that does not either.
func knownHostsFiles(values []string, byDefault string) []string {
	if len(values) == 0 {
		values = []string{byDefault}
	}
	var files []string
	for _, v := range values {
		first := len(files)
		for _, f := range strings.Fields(v) {
			if last := len(files) - 1; last >= first && isPath(files[last]) && !isPath(f) && f != "none" {
				files[last] += " " + f
			} else {
				files = append(files, f)
			}
		}
	}
	return files
}

// isPath reports whether a word begins as a path that does not depend on the current directory.
func isPath(word string) bool { return strings.ContainsAny(word[:1], "/~%$") }

// identities lists c's files, then the configured ones, or else ssh's default files. ssh -G lists
// the defaults as if configured, so they are recognized by name.
func (c Config) identities(configured []string, x expander) []identityFile {
	habit := map[string]bool{}
	var habits []string
	for _, kind := range []string{"rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk", "xmss", "dsa"} {
		path := x.path("~/.ssh/id_" + kind)
		habit[path] = true
		habits = append(habits, path)
	}
	var files []identityFile
	for _, path := range c.IdentityFiles {
		files = append(files, identityFile{x.path(path), true})
	}
	paths := x.paths(configured)
	if len(configured) == 0 {
		paths = habits
	}
	for _, path := range paths {
		files = append(files, identityFile{path, !habit[path]})
	}
	return files
}
