package tcp

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The handshake proves to both ends of a connection that the other holds the
// job's key, and is the rank it says it is, in this job and this epoch.
//
//	dialer                                    acceptor
//	hello D, MAC(kD, 1 ‖ hello D)        →    a stranger stops here, unanswered
//	                                     ←    hello A, MAC(kA, 2 ‖ D's frame ‖ hello A)
//	MAC(kD, 3 ‖ both frames)             →    now D is known to be alive, not a recording
//	                                     ←    MAC(kA, 4 ‖ all of the above): D has its place
//
// Where data is encrypted, the TLS handshake stands before the last line, which goes
// through TLS: so it says that this channel belongs to this handshake. A stranger
// does not even get a ServerHello.
//
// kD and kA are derived from the job key, one for each role, so that nothing a
// rank ever said can be sent back to it. The nonces of both sides are in the
// transcript, so that nothing can be said twice.

const (
	helloSize = 88
	macSize   = sha256.Size
	nonceSize = 32
	protocol  = 2
)

const magic = "gorunrng"

// Identity is one rank in one epoch of one job.
type Identity struct {
	Job        string
	Epoch      int
	Rank, Size int
	Key        []byte // secret of the job and epoch
	Comm       string // name of a sub-communicator, empty for the world
}

// hello is what each side says about the connection, from its own point of view.
type hello struct {
	group    [16]byte // start of the SHA-256 of the job's id and the communicator's name
	epoch    uint64
	from, to uint32
	size     uint32
	purpose  uint8 // 0, data: the only one yet
	stripe   uint8 // which of the link's connections this is
	stripes  uint8 // how many it has
	guard    Guard // of the data
	nonce    [nonceSize]byte
}

func (h hello) encode() []byte {
	b := make([]byte, 0, helloSize)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint16(b, protocol)
	b = append(b, h.purpose, h.stripe)
	b = append(b, h.group[:]...)
	b = binary.BigEndian.AppendUint64(b, h.epoch)
	b = binary.BigEndian.AppendUint32(b, h.from)
	b = binary.BigEndian.AppendUint32(b, h.to)
	b = binary.BigEndian.AppendUint32(b, h.size)
	b = append(b, h.stripes, byte(h.guard))
	b = append(b, make([]byte, helloSize-nonceSize-len(b))...)
	return append(b, h.nonce[:]...)
}

func decodeHello(b []byte) (h hello, err error) {
	if len(b) != helloSize || string(b[:8]) != magic {
		return hello{}, errors.New("not a hello of a rank")
	}
	if v := binary.BigEndian.Uint16(b[8:]); v != protocol {
		return hello{}, fmt.Errorf("protocol %d, want %d", v, protocol)
	}
	h.purpose, h.stripe = b[10], b[11]
	copy(h.group[:], b[12:28])
	h.epoch = binary.BigEndian.Uint64(b[28:])
	h.from = binary.BigEndian.Uint32(b[36:])
	h.to = binary.BigEndian.Uint32(b[40:])
	h.size = binary.BigEndian.Uint32(b[44:])
	h.stripes, h.guard = b[48], Guard(b[49])
	copy(h.nonce[:], b[helloSize-nonceSize:])
	if !bytes.Equal(h.encode(), b) {
		return hello{}, errors.New("hello with unknown fields")
	}
	return h, nil
}

// shaker holds what a rank needs for all its handshakes. It is read-only.
type shaker struct {
	self             Identity
	stripes          int
	dialKey, joinKey []byte
	random           io.Reader

	guard       Guard
	credentials *credentials // where data is encrypted
	peers       []Peer       // by rank
}

func newShaker(self Identity, stripes int) (*shaker, error) {
	derive := func(role string) ([]byte, error) {
		info := fmt.Sprintf("gorun ring link %d %s %d %q %q", protocol, role, self.Epoch, self.Job, self.Comm)
		return hkdf.Key(sha256.New, self.Key, nil, info, sha256.Size)
	}
	dialKey, err := derive("dialer")
	if err != nil {
		return nil, err
	}
	joinKey, err := derive("acceptor")
	if err != nil {
		return nil, err
	}
	return &shaker{self: self, stripes: stripes, dialKey: dialKey, joinKey: joinKey, random: rand.Reader}, nil
}

// dial is the handshake of the side that connected, to rank to. The caller sets
// the deadline of conn.
func (s *shaker) dial(conn io.ReadWriter, to, stripe int) error {
	mine, err := s.hello(to, stripe)
	if err != nil {
		return err
	}
	script := mine.encode()
	script = append(script, mac(s.dialKey, 1, script)...)
	if _, err := conn.Write(script); err != nil {
		return err
	}
	frame := make([]byte, helloSize+macSize)
	if _, err := io.ReadFull(conn, frame); err != nil {
		return err
	}
	script = append(script, frame[:helloSize]...)
	if !hmac.Equal(frame[helloSize:], mac(s.joinKey, 2, script)) {
		return ErrRefused
	}
	if theirs, err := decodeHello(frame[:helloSize]); err != nil || !theirs.answers(mine) {
		return ErrRefused
	}
	script = append(script, frame[helloSize:]...)
	proof := mac(s.dialKey, 3, script)
	if _, err := conn.Write(proof); err != nil {
		return err
	}
	script = append(script, proof...)
	inner, err := s.cover(conn, to, true)
	if err != nil {
		return err
	}
	last := make([]byte, macSize)
	if _, err := io.ReadFull(inner, last); err != nil {
		if s.guard == Encrypted { // the acceptor may have refused the certificate
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return err
	}
	if !hmac.Equal(last, mac(s.joinKey, 4, script)) {
		return ErrRefused
	}
	return nil
}

// seat is a place at a rank: one connection of the link to a dialer.
type seat struct{ rank, stripe int }

// accept is the handshake of the side that listens. Place is asked, once the
// dialer is proven to be that rank, whether it may have the connection; only
// then does the dialer hear that it has. A refused dialer hears nothing.
func (s *shaker) accept(conn io.ReadWriter, place func(seat) bool) (seat, error) {
	script := make([]byte, helloSize+macSize, 3*(helloSize+macSize))
	if _, err := io.ReadFull(conn, script); err != nil {
		return seat{}, err
	}
	if !hmac.Equal(script[helloSize:], mac(s.dialKey, 1, script[:helloSize])) {
		return seat{}, ErrRefused
	}
	theirs, err := decodeHello(script[:helloSize])
	if err != nil {
		return seat{}, ErrRefused
	}
	wanted := seat{int(theirs.from), int(theirs.stripe)}
	mine, err := s.hello(wanted.rank, wanted.stripe)
	if err != nil {
		return seat{}, err
	}
	if !theirs.answers(mine) || theirs.from >= theirs.size || theirs.stripe >= theirs.stripes {
		return seat{}, ErrRefused
	}
	script = append(script, mine.encode()...)
	script = append(script, mac(s.joinKey, 2, script)...)
	if _, err := conn.Write(script[helloSize+macSize:]); err != nil {
		return seat{}, err
	}
	proof := make([]byte, macSize)
	if _, err := io.ReadFull(conn, proof); err != nil {
		return seat{}, err
	}
	if !hmac.Equal(proof, mac(s.dialKey, 3, script)) {
		return seat{}, ErrRefused
	}
	inner, err := s.cover(conn, wanted.rank, false)
	if err != nil {
		return seat{}, err
	}
	if !place(wanted) {
		return seat{}, ErrRefused
	}
	_, err = inner.Write(mac(s.joinKey, 4, append(script, proof...)))
	return wanted, err
}

// cover gives conn its guard, and returns what the handshake ends on.
func (s *shaker) cover(conn io.ReadWriter, rank int, dialing bool) (io.ReadWriter, error) {
	if s.guard == Plain {
		return conn, nil
	}
	l, ok := conn.(*line)
	if !ok || rank >= len(s.peers) {
		return nil, fmt.Errorf("no way to guard the data of rank %d", rank)
	}
	w := newWire(l.TCPConn)
	if s.guard == Checked {
		l.guard = &guard{layer: w, wire: w}
		return w, nil
	}
	secured, err := s.credentials.secure(w, s.peers[rank].Cert, dialing)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	l.guard = &guard{layer: secured, wire: w}
	return secured, nil
}

// hello returns this rank's own, with a fresh nonce.
func (s *shaker) hello(to, stripe int) (hello, error) {
	h := hello{
		epoch: uint64(s.self.Epoch),
		from:  uint32(s.self.Rank), to: uint32(to), size: uint32(s.self.Size),
		stripe: uint8(stripe), stripes: uint8(s.stripes), guard: s.guard,
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", s.self.Job, s.self.Comm))
	copy(h.group[:], sum[:])
	_, err := io.ReadFull(s.random, h.nonce[:])
	return h, err
}

// answers reports whether h is other's view of the same connection.
func (h hello) answers(other hello) bool {
	h.from, h.to, h.nonce = h.to, h.from, other.nonce
	return h == other
}

// mac authenticates step of a handshake, with everything said before it.
func mac(key []byte, step byte, script []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte{step})
	m.Write(script)
	return m.Sum(nil)
}
