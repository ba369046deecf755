package secure

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/admit"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// club is members of a group with a key, who listen on loopback.
type club struct {
	*testing.T
	members []*Authenticator
	addrs   []string
	handled chan [2]int // the member that dialled, and the stream
}

// newClub returns members of which the last has other keys.
func newClub(t *testing.T, members int, encrypted bool) *club {
	c := &club{T: t, handled: make(chan [2]int, 1000)}
	var own []*Credentials
	for range members {
		own = append(own, newTestCredentials(t))
	}
	cert := func(rank int) (Fingerprint, bool) { return own[rank].Fingerprint(), true }
	for i := range members {
		id := identity(i, members)
		stranger := i == members-1
		if stranger {
			id.Key = bytes.Repeat([]byte{8}, 32)
		}
		var p *Authenticator
		if encrypted {
			p = must.Get(NewAuthenticator(id, 3, own[i], cert))(t)
		} else {
			p = must.Get(NewPlainAuthenticator(id, 3, secretsOf(i, members, stranger)))(t)
		}
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		var serving sync.WaitGroup
		serving.Go(func() {
			p.Serve(l, time.Minute, func(conn net.Conn, from, stream int) {
				c.handled <- [2]int{from, stream}
				_, _ = io.Copy(conn, conn)
			})
		})
		t.Cleanup(func() { l.Close(); serving.Wait() })
		c.members = append(c.members, p)
		c.addrs = append(c.addrs, l.Addr().String())
	}
	return c
}

// secretsOf returns what a member shares with each other one, or takes for it as a stranger.
func secretsOf(member, members int, stranger bool) [][]byte {
	secrets := make([][]byte, members)
	for i := range secrets {
		secrets[i] = []byte{byte(member + i), byte(member * i)}
		if stranger {
			secrets[i] = append(secrets[i], 1)
		}
	}
	secrets[member] = nil
	return secrets
}

func (c *club) dial(from, to, stream int) (net.Conn, error) {
	c.Helper()
	conn := must.Get(net.Dial("tcp", c.addrs[to]))(c)
	c.Cleanup(func() { conn.Close() })
	must.OK(c, conn.SetDeadline(time.Now().Add(2*time.Minute)))
	return c.members[from].Dial(conn, to, stream)
}

func TestMembersOfAGroupMeet(t *testing.T) {
	for name, encrypted := range map[string]bool{"plain": false, "encrypted": true} {
		t.Run(name, func(t *testing.T) {
			c := newClub(t, 3, encrypted)
			for _, way := range [][2]int{{0, 1}, {1, 0}} {
				conn := must.Get(c.dial(way[0], way[1], 2))(t)
				check.Equal(t, <-c.handled, [2]int{way[0], 2}, way, "has connected as")
				text := bytes.Repeat([]byte("text"), 100_000)
				go func() { _, _ = conn.Write(text) }()
				back := make([]byte, len(text))
				_, err := io.ReadFull(conn, back)
				check.That(t, err == nil && bytes.Equal(back, text), "another text came back, %v", err)
			}
			// The last one has another key.
			for _, way := range [][2]int{{2, 0}, {0, 2}} {
				check.Error(c.dial(way[0], way[1], 0)).Any(t, way, "have met")
			}
			if len(c.handled) > 0 {
				t.Errorf("a stranger was admitted: %v", <-c.handled)
			}
		})
	}
}

// The right key does not help with another certificate, nor with one that is not known yet.
func TestAuthenticatorRefusesOtherKeys(t *testing.T) {
	c := newClub(t, 3, true)
	for name, cert := range map[string]func(int) (Fingerprint, bool){
		"other":   func(int) (Fingerprint, bool) { return newTestCredentials(t).Fingerprint(), true },
		"unknown": func(int) (Fingerprint, bool) { return Fingerprint{}, false },
	} {
		impostor := must.Get(NewAuthenticator(identity(0, 3), 3, newTestCredentials(t), cert))(t)
		c.members[0] = impostor
		check.Error(c.dial(0, 1, 0)).Is(t, ErrRefused, name)
	}
	check.That(t, len(c.handled) == 0, "an impostor was admitted")
}

// A member that claims the number of another one is refused, and takes no connection of the other's
// share.
func TestMembersCannotPassForOthers(t *testing.T) {
	c := newClub(t, 4, false)
	for _, claimed := range []int{0, 1, 3} { // of another one, of the acceptor, of one with no such secret
		id := identity(claimed, 4)
		impostor := must.Get(NewPlainAuthenticator(id, 3, secretsOf(2, 4, false)))(t)
		for range maxServed {
			conn := must.Get(net.Dial("tcp", c.addrs[1]))(t)
			_, err := impostor.Dial(conn, 1, 0)
			check.Error(err).Any(t, "member 2 passes for", claimed)
			conn.Close()
		}
	}
	must.Get(c.dial(0, 1, 0))(t)
	check.Equal(t, <-c.handled, [2]int{0, 0}, "the first that is served")
}

// A recording of a member is no member, and half-open connections keep none out.
func TestAuthenticatorUnderFlood(t *testing.T) {
	c := newClub(t, 3, true)
	recorded := &recorder{ReadWriter: tape{bytes.NewReader(nil)}}
	_ = c.members[0].handshaker.dial(recorded, 1, 0)
	must.That(t, recorded.sent.Len() == helloSize+macSize, "%d bytes are recorded", recorded.sent.Len())
	for range 2 * admit.MaxPending {
		conn := must.Get(net.Dial("tcp", c.addrs[1]))(t)
		t.Cleanup(func() { conn.Close() })
		_, err := conn.Write(recorded.sent.Bytes())
		must.That(t, err == nil || disconnected(err), "%v", err)
	}
	must.Get(c.dial(0, 1, 1))(t)
	check.Equal(t, <-c.handled, [2]int{0, 1}, "admitted")
}

// A member to which strangers connect closes connections of which it has not read the first bytes,
// which resets them. It is asked again.
func TestConnectionThatWasCrowdedOutIsMadeAgain(t *testing.T) {
	member := func(rank int) *Authenticator {
		return must.Get(NewPlainAuthenticator(identity(rank, 2), 1, secretsOf(rank, 2, true)))(t)
	}
	l := must.Get(net.Listen("tcp4", "127.0.0.1:0"))(t)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer l.Close()
	serving.Go(func() {
		crowded, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = crowded.Read(make([]byte, 1)) // the rest of the first bytes is there
		crowded.Close()
		member(1).Serve(l, time.Minute, func(net.Conn, int, int) {})
	})
	conn := must.Get(member(0).Reach(t.Context(), net.Dialer{}, l.Addr().(*net.TCPAddr).AddrPort(), 1, 0))(t)
	conn.Close()
}

// A member that proves who it is again and again takes a bounded part of another one, and keeps no
// third one out.
func TestMemberHoldsFewConnections(t *testing.T) {
	c := newClub(t, 4, false)
	for range 2 * maxServed {
		_, _ = c.dial(0, 1, 0)
	}
	must.Get(c.dial(2, 1, 0))(t)
	served := map[int]int{}
	for served[2] == 0 {
		from := <-c.handled
		served[from[0]]++
	}
	check.That(t, served[0] <= maxServed, "%d connections are served", served[0])
}
