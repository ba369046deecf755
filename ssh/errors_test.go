package ssh

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/test/check"
	"golang.org/x/sys/unix"
)

// D1: hanging name servers are told from a name that does not exist, and are not asked again.
func TestUnresolvedErrors(t *testing.T) {
	target := Target{"n", "n:22"}
	for _, tc := range []struct {
		err        error
		says, hint string
		again      bool
	}{
		{&net.DNSError{Err: "no such host", Name: "n", IsNotFound: true}, "n: no address for the name n",
			"check the spelling", true},
		{errLookup, "n: looking its address up: name servers: no answer in time", "/etc/resolv.conf", false},
	} {
		var unresolved *UnresolvedError
		err := dialError(target, tc.err)
		check.That(t, errors.As(err, &unresolved) && err.Error() == tc.says && unresolved.Temporary() == tc.again &&
			strings.Contains(unresolved.Hint(), tc.hint), "%v: %v", tc.err, err)
	}
}

// An address of a link needs an interface of this machine.
func TestLinkLocalAddresses(t *testing.T) {
	for host, want := range map[string]string{
		"fe80::1":          "fe80::1: fe80::1 needs the interface that leads there, as in fe80::1%eth0",
		"fe80::1%no-such0": "fe80::1%no-such0: this machine has no interface no-such0, which leads to fe80::1",
		"::1":              "",
		"10.0.0.1":         "",
	} {
		target := settings{alias: host, hostname: host, port: 22}.target()
		var address *AddressError
		err := dialError(target, os.NewSyscallError("connect", unix.EINVAL))
		check.That(t, errors.As(err, &address) == (want != "") && (want == "" || err.Error() == want),
			"%s: %v", host, err)
	}
}

// D13: what a busy sshd does may be tried again; what another server or a stuck one does may not.
func TestBusyServers(t *testing.T) {
	for _, tc := range []struct {
		said string
		err  error
		want bool
	}{
		{"", endedError{io.EOF}, true},
		{"", endedError{unix.ECONNRESET}, true},
		{"Exceeded MaxStartups", endedError{io.EOF}, true},
		{"Not allowed at this time", foreign{endedError{io.EOF}}, true},
		{"HTTP/1.1 400", endedError{io.EOF}, false},
		{"", errTimeout, false},
		{"", io.ErrUnexpectedEOF, false}, // a proxy command's words
	} {
		e := &HandshakeError{Target{"h", "h:22"}, PhaseBanner, tc.said, tc.err}
		check.That(t, e.Temporary() == tc.want && strings.Contains(e.Hint(), "MaxStartups") == (tc.want ||
			tc.err == io.ErrUnexpectedEOF), "%v: %v, hint %q", e, e.Temporary(), e.Hint())
	}
	err := dialError(Target{"h", "h:22"}, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", unix.ECONNRESET)})
	var dropped *HandshakeError
	check.That(t, errors.As(err, &dropped) && dropped.Temporary(), "a reset while connecting is %v", err)
}

func TestTargetsNameAHostOnce(t *testing.T) {
	for target, want := range map[Target]string{
		{"f1", "f1:22"}: "f1", {"f1", "f1:2222"}: "f1 (port 2222)", {"f1", "10.0.0.1:22"}: "f1 (10.0.0.1:22)",
		{"f1", ""}:                  "f1",
		{"fe80::1", "[fe80::1]:22"}: "fe80::1",
	} {
		got := target.String()
		check.That(t, got == want, "%#v: %q", target, got)
	}
}

// D4: a server with a wrong key hears nothing but the key exchange: no name of a user, no key, no
// command.
func TestNothingIsSentBeforeTheHostKeyIsKnown(t *testing.T) {
	h := newHostile(t, 5*time.Second)
	var heard []byte // numbers of the client's messages
	_, err := h.run(t, nil, func(conn net.Conn) {
		r := &rawServer{conn: conn, key: newSigner(t)}
		r.heard = func(p []byte) { heard = append(heard, p[0]) }
		r.serve()
	})
	var changed *ChangedHostKeyError
	check.That(t, errors.As(err, &changed), "err is %v", err)
	if string(heard) != "\x14\x1e" { // KEXINIT and KEX_ECDH_INIT
		t.Errorf("the client sent messages %d", heard)
	}
}

// A key revocation list that cannot be asked for want of a temporary file is not what is wrong.
func TestHintsOfRevocationLists(t *testing.T) {
	for err, want := range map[error]string{
		io.ErrUnexpectedEOF:                          "correct the file",
		&trust.TemporaryError{Err: io.ErrShortWrite}: "TMPDIR=",
	} {
		e := &RevocationListError{Err: foreign{err}}
		check.That(t, strings.Contains(e.Hint(), want), "%v: hint %q", e, e.Hint())
	}
}
