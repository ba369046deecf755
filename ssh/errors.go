package ssh

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gorun/gorun/internal/prose"
)

// Hinter is an error with a hint on what the user can do.
type Hinter interface {
	error
	Hint() string // one or more whole lines, without a final line break
}

// Target names a host in errors.
type Target struct {
	Host string // name as the user wrote it
	Addr string // host:port, numeric once connected
}

func (t Target) String() string {
	host, port := t.hostPort()
	switch {
	case host != t.Host:
		return t.Host + " (" + t.Addr + ")"
	case port != "22":
		return t.Host + " (port " + port + ")"
	}
	return t.Host
}

// about marks errors that already name their host.
func (t Target) about() Target { return t }

// hostPort returns the target as two words, for commands in hints.
func (t Target) hostPort() (host, port string) {
	i := strings.LastIndexByte(t.Addr, ':')
	if i < 0 {
		return t.Host, "22"
	}
	return strings.Trim(t.Addr[:i], "[]"), t.Addr[i+1:]
}

// AddressError reports an address of a link with a wrong interface, or without one.
type AddressError struct {
	Target
	Err error
}

func (e *AddressError) Error() string { return e.Host + ": " + e.Err.Error() }
func (e *AddressError) Unwrap() error { return e.Err }
func (e *AddressError) Hint() string  { return "see the interfaces of this machine: ip -br link" }

// linkLocal returns what is wrong with an address of a link that the kernel refuses; nil for
// others.
func (t Target) linkLocal() error {
	host, _ := t.hostPort()
	address, err := netip.ParseAddr(host)
	switch {
	case err != nil || !address.IsLinkLocalUnicast():
		return nil
	case address.Zone() == "":
		return fmt.Errorf("%s needs the interface that leads there, as in %s%%eth0", host, host)
	}
	return fmt.Errorf("this machine has no interface %s, which leads to %s", address.Zone(), address.WithZone(""))
}

// ConfigError reports that a host's configuration cannot be used.
type ConfigError struct {
	Host string
	Err  error
}

func (e *ConfigError) Error() string { return e.Host + ": ssh configuration: " + e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// UnresolvedError reports that a host's name has no address.
type UnresolvedError struct {
	Target
	Err error
}

func (e *UnresolvedError) Error() string {
	if dns, is := errors.AsType[*net.DNSError](e.Err); is && dns.IsNotFound {
		return fmt.Sprintf("%s: no address for the name %s", e.Target, prose.Printable(dns.Name))
	}
	return fmt.Sprintf("%s: looking its address up: %v", e.Target, e.Err)
}
func (e *UnresolvedError) Unwrap() error   { return e.Err }
func (e *UnresolvedError) Temporary() bool { return !errors.Is(e.Err, errLookup) }
func (e *UnresolvedError) Hint() string {
	host, _ := e.hostPort()
	if errors.Is(e.Err, errLookup) {
		return "see whether a name server of /etc/resolv.conf answers: getent hosts " + host
	}
	return "check the spelling, add a Host entry to ~/.ssh/config, or see: getent hosts " + host
}

// RefusedError reports that the host is up but nothing listens on the port.
type RefusedError struct {
	Target
	Err error
}

func (e *RefusedError) Error() string   { return e.Target.String() + ": connection refused" }
func (e *RefusedError) Unwrap() error   { return e.Err }
func (e *RefusedError) Temporary() bool { return true }
func (e *RefusedError) Hint() string {
	_, port := e.hostPort()
	return "start sshd on that host, or give the port it listens on instead of " + port
}

// UnreachableError reports that nothing answered: the host is down, cut off or behind a firewall.
type UnreachableError struct {
	Target
	Err error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s: cannot be reached: %v", e.Target, e.Err)
}
func (e *UnreachableError) Unwrap() error   { return e.Err }
func (e *UnreachableError) Temporary() bool { return true }
func (e *UnreachableError) Hint() string {
	host, port := e.hostPort()
	return fmt.Sprintf("check that the host is up and that no firewall drops port %s: ping %s", port, host)
}

// ForwardError reports that a jump host does not connect to the host.
type ForwardError struct {
	Target
	Via       Target
	Forbidden bool   // whether the jump host does not forward, or not there
	Try       string // command that connects from the jump host
	Err       error
}

func (e *ForwardError) Error() string {
	return fmt.Sprintf("%s: cannot be reached from jump host %s: %v", e.Target, e.Via, e.Err)
}
func (e *ForwardError) Unwrap() error { return e.Err }
func (e *ForwardError) Hint() string {
	if e.Forbidden {
		return fmt.Sprintf("have forwarding allowed on %s (AllowTcpForwarding and PermitOpen in its sshd_config, "+
			"no-port-forwarding in authorized_keys), or go through another jump host", e.Via.Host)
	}
	return "check that the jump host reaches it: " + e.Try
}

// ProxyError reports that a proxy command did not connect.
type ProxyError struct {
	Target
	Show string // command that shows the proxy command
	Err  error
}

func (e *ProxyError) Error() string {
	return fmt.Sprintf("%s: cannot be reached: %v", e.Target, e.Err)
}
func (e *ProxyError) Unwrap() error { return e.Err }
func (e *ProxyError) Hint() string {
	return "run the proxy command by hand, which must print SSH-2.0; to see it: " + e.Show
}

// Phases of a handshake, in their order.
const (
	PhaseBanner = "waiting for the server's banner"
	PhaseKex    = "key exchange"
	PhaseAuth   = "authentication"
)

// HandshakeError reports a failure between the TCP connection and authentication.
type HandshakeError struct {
	Target
	Phase string // one of the Phase constants
	Said  string // text that the server sent before its SSH banner or while it authenticated, made printable
	Err   error
}

func (e *HandshakeError) Error() string {
	text := fmt.Sprintf("%s: %s: %v", e.Target, e.Phase, e.Err)
	if e.Said != "" {
		text += fmt.Sprintf(": the server says %q", e.Said)
	}
	return text
}
func (e *HandshakeError) Unwrap() error { return e.Err }

// Temporary reports whether the connection was dropped before the banner, as by a busy sshd.
func (e *HandshakeError) Temporary() bool {
	ended := errors.Is(e.Err, io.EOF) || errors.Is(e.Err, syscall.ECONNRESET) || errors.Is(e.Err, syscall.EPIPE)
	return e.Phase == PhaseBanner && ended && (e.Said == "" || e.busy())
}

// busy reports whether the server's text names its limits: MaxStartups or PerSourcePenalties.
func (e *HandshakeError) busy() bool {
	return strings.HasPrefix(e.Said, "Exceeded MaxStartups") || strings.HasPrefix(e.Said, "Not allowed at this time")
}

func (e *HandshakeError) Hint() string {
	_, port := e.hostPort()
	var none *xssh.AlgorithmNegotiationError
	switch {
	case e.Phase == PhaseBanner && e.Said != "" && !e.busy():
		return "port " + port + " is not an SSH server's: check the port"
	case e.Phase == PhaseBanner && errors.Is(e.Err, errTimeout):
		return "the port is open, but the server behind it is stuck or very slow: see its log, or restart it"
	case e.Phase == PhaseBanner:
		return "the server is overloaded or limits new connections: raise MaxStartups (or PerSourcePenalties) in its " +
			"sshd_config, or connect to fewer hosts at once"
	case errors.As(e.Err, &none):
		return systemSSHHint(none)
	case e.Phase == PhaseKex:
		return "see what both sides offer: ssh -vv -p " + port + " " + e.Host + " true"
	}
	return "the account may not log in there now, or sshd has a fault: see its log, there: journalctl -u ssh"
}

// systemSSHHint returns the flags by which gorun reaches a server through ssh(1), which knows
// algorithms that the built-in client refuses, some of them only if it is told to use them.
func systemSSHHint(none *xssh.AlgorithmNegotiationError) string {
	hint := "the built-in client has none of them; the system's ssh may: --launcher system-ssh"
	keyword := ""
	switch {
	case none.What == "key exchange":
		keyword = "KexAlgorithms"
	case none.What == "host key":
		keyword = "HostKeyAlgorithms"
	case strings.HasSuffix(none.What, "cipher"):
		keyword = "Ciphers"
	case strings.HasSuffix(none.What, "MAC"):
		keyword = "MACs"
	}
	for _, old := range []string{
		"diffie-hellman-group-exchange-sha1", "diffie-hellman-group14-sha1", "diffie-hellman-group1-sha1",
		"ssh-rsa", "ssh-dss", "aes256-cbc", "aes192-cbc", "aes128-cbc", "3des-cbc",
		"hmac-sha1-etm@openssh.com", "hmac-sha1", "hmac-md5",
	} {
		if slices.Contains(none.RequestedAlgorithms, old) && keyword != "" {
			return hint + " --launch-agent-args '-o " + keyword + "=+" + old + "'"
		}
	}
	return hint
}

// endedError reports that the server or the network ended the connection.
type endedError struct{ err error }

func (e endedError) Error() string {
	var errno syscall.Errno
	switch {
	case errors.Is(e.err, io.EOF):
		return "the server closed the connection"
	case errors.As(e.err, &errno): // leave out the addresses: the target names them
		return "the connection ended: " + errno.Error()
	}
	return "the connection ended: " + e.err.Error()
}
func (e endedError) Unwrap() error { return e.err }

// SessionError reports that the connected host does not start commands.
type SessionError struct {
	Target
	Err error
}

func (e *SessionError) Error() string {
	return fmt.Sprintf("%s: the server starts no command: %v", e.Target, e.Err)
}
func (e *SessionError) Unwrap() error { return e.Err }
func (e *SessionError) Hint() string {
	return "check MaxSessions, ForceCommand and the account's restrictions in its sshd_config and authorized_keys"
}

// LostError reports that a connection or channel ended without the command's status: how the
// command ended is unknown.
type LostError struct {
	Target
	Err error // cause; nil if the server closed the channel normally
}

func (e *LostError) Error() string {
	if e.Err == nil {
		return e.Target.String() + ": the server closed the command's channel without a status"
	}
	return fmt.Sprintf("%s: connection lost: %v", e.Target, e.Err)
}
func (e *LostError) Unwrap() error { return e.Err }

// ExitError reports a command that ended with another status than 0.
type ExitError struct {
	Target
	Status int    // exit status; if Signal is set, 128 and the signal's number
	Signal string // name without SIG, if a signal ended the command
}

// ExitCode returns the status that a shell would report.
func (e *ExitError) ExitCode() int { return e.Status }

func (e *ExitError) Error() string {
	if e.Signal != "" {
		return fmt.Sprintf("%s: command ended by signal %s", e.Target, prose.Printable(e.Signal))
	}
	return fmt.Sprintf("%s: command exited with status %d", e.Target, e.Status)
}

// maxText bounds text from a server in an error.
const maxText = 400

// foreign wraps an error whose text may contain data from a server.
type foreign struct{ err error }

func (e foreign) Error() string { return prose.Printable(e.err.Error()) }
func (e foreign) Unwrap() error { return e.err }
