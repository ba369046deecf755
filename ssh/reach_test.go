package ssh

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Host, User and Port of a Config lead to an IPv6 address that no configuration names.
func TestIPv6AddressWithUserAndPort(t *testing.T) {
	listen, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		lab.Skip(t, "this machine has no IPv6: "+err.Error())
	}
	var user string
	s, files := newServer(t, func(s *server) {
		s.linked = func(conn *xssh.ServerConn) { user = conn.User() }
	})
	six := &server{
		home:    s.home,
		hostKey: s.hostKey,
		config:  s.config,
		linked:  s.linked,
		listen:  listen,
		conns:   map[net.Conn]bool{},
	}
	six.done.Go(six.serve)
	t.Cleanup(six.close)
	port := listen.Addr().(*net.TCPAddr).Port
	writeFile(t, files.known, fmt.Sprintf("[::1]:%d %s", port, xssh.MarshalAuthorizedKey(s.hostKey.PublicKey())))
	c := must.Get(Dial(t.Context(), Config{
		Host:       "::1",
		User:       "ada",
		Port:       port,
		ConfigFile: files.config,
	}))(t)
	defer c.Close()
	if got := mustRun(t, c, "echo", "six"); got != "six" || user != "ada" {
		t.Errorf("%q for user %q", got, user)
	}
}

// noTicket is a GSSAPI that lets nobody in.
type noTicket struct{}

func (noTicket) AcceptSecContext([]byte) ([]byte, string, bool, error) {
	return nil, "", false, errors.New("no")
}
func (noTicket) VerifyMIC([]byte, []byte) error { return errors.New("no") }
func (noTicket) DeleteSecContext() error        { return nil }

// The error of a refused user names the methods by which ssh itself might get in.
func TestAuthErrorNamesOtherMethods(t *testing.T) {
	for _, tc := range []struct {
		server bool
		option string
		want   []string
	}{
		{true, "GSSAPIAuthentication yes", []string{"gssapi-with-mic"}},
		{true, "GSSAPIAuthentication no", nil},
		{true, "HostbasedAuthentication yes", nil},
		{false, "GSSAPIAuthentication yes", nil},
	} {
		s, files := newServer(t, func(s *server) {
			s.config.PublicKeyCallback = func(xssh.ConnMetadata, xssh.PublicKey) (*xssh.Permissions, error) {
				return nil, errors.New("nobody")
			}
			if tc.server {
				login := func(xssh.ConnMetadata, string) (*xssh.Permissions, error) { return nil, errors.New("nobody") }
				s.config.GSSAPIWithMICConfig = &xssh.GSSAPIWithMICConfig{Server: noTicket{}, AllowLogin: login}
			}
		})
		files.write(t, s, tc.option)
		_, err := Dial(t.Context(), files.Config())
		var auth *AuthError
		check.That(t, errors.As(err, &auth) && slices.Equal(auth.Others, tc.want), "%+v: %+v", tc, err)
	}
}
