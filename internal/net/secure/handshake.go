package secure

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

// The handshake proves to both ends of a connection that the other holds the job's key
// and is the rank that it claims to be, in this job and this epoch.
//
//	dialer                                    acceptor
//	hello D, MAC(kD, 1 ‖ hello D)        →    an unauthenticated peer gets no answer
//	                                     ←    hello A, MAC(kA, 2 ‖ D's frame ‖ hello A)
//	MAC(kD, 3 ‖ both frames)             →    D is live, not a recording
//	                                     ←    MAC(kA, 4 ‖ all of the above): D is accepted
//
// With encryption, the TLS handshake precedes the last message, which goes through TLS
// and so binds the channel to this handshake. An unauthenticated peer does not get a
// ServerHello.
//
// kD and kA are derived from the job key, or from a secret of the two ends, one for each role, so
// that a rank's messages cannot be reflected to it. The transcript contains the nonces of both
// sides, so that messages cannot be replayed.

const (
	helloSize = 88
	macSize   = sha256.Size
	nonceSize = 32
	protocol  = 2
)

const magic = "gorunrng"

// hello describes the connection from its sender's point of view.
type hello struct {
	group    [16]byte // start of the SHA-256 of the job's id and the communicator's name
	epoch    uint64
	from, to uint32
	size     uint32
	purpose  uint8 // 0 for data
	stripe   uint8 // number of this connection between the two ranks
	stripes  uint8 // count of those connections
	guard    Guard // protection of the data
	lane     uint8 // 0 for the stripe's first connection; else the number of the lane
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
	b = append(b, h.stripes, byte(h.guard), h.lane)
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
	h.purpose = b[10]
	h.stripe = b[11]
	copy(h.group[:], b[12:28])
	h.epoch = binary.BigEndian.Uint64(b[28:])
	h.from = binary.BigEndian.Uint32(b[36:])
	h.to = binary.BigEndian.Uint32(b[40:])
	h.size = binary.BigEndian.Uint32(b[44:])
	h.stripes = b[48]
	h.guard = Guard(b[49])
	h.lane = b[50]
	copy(h.nonce[:], b[helloSize-nonceSize:])
	if !bytes.Equal(h.encode(), b) {
		return hello{}, errors.New("hello with unknown fields")
	}
	return h, nil
}

// handshaker holds a rank's secrets and settings for all its handshakes. It is read-only.
type handshaker struct {
	self    Identity
	stripes int
	// keys returns those of links with a rank, which a peer claims to be, or an error if there are
	// none.
	keys   func(rank int) (linkKeys, error)
	random io.Reader

	guard       Guard
	credentials *Credentials // nil unless data is encrypted
	// cert returns the fingerprint of a rank's certificate; false: it is not known.
	cert func(rank int) (Fingerprint, bool)
}

// linkKeys are the keys of both roles at a link, so that no message can be reflected.
type linkKeys struct{ dial, join []byte }

// newHandshaker returns the handshaker of a rank that shares one key with all others.
func newHandshaker(self Identity, stripes int) (*handshaker, error) {
	keys, err := self.linkKeys(self.Key)
	if err != nil {
		return nil, err
	}
	return &handshaker{
		self:    self,
		stripes: stripes,
		keys:    func(int) (linkKeys, error) { return keys, nil },
		random:  rand.Reader,
	}, nil
}

// linkKeys derives the keys of links from a secret of their ends.
func (i Identity) linkKeys(secret []byte) (keys linkKeys, err error) {
	derive := func(role string) ([]byte, error) {
		info := fmt.Sprintf("gorun ring link %d %s %d %q %q", protocol, role, i.Epoch, i.Job, i.Comm)
		return hkdf.Key(sha256.New, secret, nil, info, sha256.Size)
	}
	if keys.dial, err = derive("dialer"); err != nil {
		return linkKeys{}, err
	}
	keys.join, err = derive("acceptor")
	return keys, err
}

// dial is the handshake of the side that connected, to rank to. The caller sets the
// deadline of conn.
func (s *handshaker) dial(conn io.ReadWriter, to, stripe int) error {
	return s.dialLane(conn, to, stripe, 0)
}

func (s *handshaker) dialLane(conn io.ReadWriter, to, stripe, lane int) error {
	mine, err := s.hello(to, stripe)
	if err != nil {
		return err
	}
	keys, err := s.keys(to)
	if err != nil {
		return err
	}
	mine.lane = uint8(lane)
	transcript := mine.encode()
	transcript = append(transcript, mac(keys.dial, 1, transcript)...)
	if _, err := conn.Write(transcript); err != nil {
		return err
	}
	frame := make([]byte, helloSize+macSize)
	if _, err := io.ReadFull(conn, frame); err != nil {
		return err
	}
	transcript = append(transcript, frame[:helloSize]...)
	if !hmac.Equal(frame[helloSize:], mac(keys.join, 2, transcript)) {
		return ErrRefused
	}
	if theirs, err := decodeHello(frame[:helloSize]); err != nil || !theirs.answers(mine) {
		return ErrRefused
	}
	transcript = append(transcript, frame[helloSize:]...)
	proof := mac(keys.dial, 3, transcript)
	if _, err := conn.Write(proof); err != nil {
		return err
	}
	transcript = append(transcript, proof...)
	inner, err := s.protect(conn, to, true)
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
	if !hmac.Equal(last, mac(keys.join, 4, transcript)) {
		return ErrRefused
	}
	return nil
}

// slot identifies one connection of an acceptor.
type slot struct{ rank, stripe, lane int }

// accept is the handshake of the side that listens. It calls reserve once the dialer has
// proven its rank, and confirms the connection to the dialer only if that returns true.
// A refused dialer gets no answer.
func (s *handshaker) accept(conn io.ReadWriter, reserve func(slot) bool) (slot, error) {
	transcript := make([]byte, helloSize+macSize, 3*(helloSize+macSize))
	if _, err := io.ReadFull(conn, transcript); err != nil {
		return slot{}, err
	}
	theirs, err := decodeHello(transcript[:helloSize])
	if err != nil {
		return slot{}, ErrRefused
	}
	keys, err := s.keys(int(theirs.from))
	if err != nil || !hmac.Equal(transcript[helloSize:], mac(keys.dial, 1, transcript[:helloSize])) {
		return slot{}, ErrRefused
	}
	wanted := slot{int(theirs.from), int(theirs.stripe), int(theirs.lane)}
	mine, err := s.hello(wanted.rank, wanted.stripe)
	if err != nil {
		return slot{}, err
	}
	mine.lane = theirs.lane
	if !theirs.answers(mine) || theirs.from >= theirs.size || theirs.stripe >= theirs.stripes {
		return slot{}, ErrRefused
	}
	transcript = append(transcript, mine.encode()...)
	transcript = append(transcript, mac(keys.join, 2, transcript)...)
	if _, err := conn.Write(transcript[helloSize+macSize:]); err != nil {
		return slot{}, err
	}
	proof := make([]byte, macSize)
	if _, err := io.ReadFull(conn, proof); err != nil {
		return slot{}, err
	}
	if !hmac.Equal(proof, mac(keys.dial, 3, transcript)) {
		return slot{}, ErrRefused
	}
	inner, err := s.protect(conn, wanted.rank, false)
	if err != nil {
		return slot{}, err
	}
	if !reserve(wanted) {
		return slot{}, ErrRefused
	}
	_, err = inner.Write(mac(keys.join, 4, append(transcript, proof...)))
	return wanted, err
}

// protect sets the guard of conn, and returns the stream for the last message.
func (s *handshaker) protect(conn io.ReadWriter, rank int, dialing bool) (io.ReadWriter, error) {
	if s.guard == Plain {
		return conn, nil
	}
	l, ok := conn.(*Conn)
	if !ok {
		return nil, fmt.Errorf("guarding the data of rank %d: not a connection of TCP", rank)
	}
	w := newWire(l.TCPConn)
	if s.guard == Checked {
		l.guard = &guard{layer: w, wire: w}
		return w, nil
	}
	cert, known := s.cert(rank)
	if !known {
		return nil, ErrRefused
	}
	secured, err := s.credentials.handshake(w, cert, dialing)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	l.guard = &guard{layer: secured, wire: w}
	return secured, nil
}

// hello returns this rank's hello, with a fresh nonce.
func (s *handshaker) hello(to, stripe int) (hello, error) {
	h := hello{
		epoch:   uint64(s.self.Epoch),
		from:    uint32(s.self.Rank),
		to:      uint32(to),
		size:    uint32(s.self.Size),
		stripe:  uint8(stripe),
		stripes: uint8(s.stripes),
		guard:   s.guard,
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", s.self.Job, s.self.Comm))
	copy(h.group[:], sum[:])
	_, err := io.ReadFull(s.random, h.nonce[:])
	return h, err
}

// answers reports whether h is other's view of the same connection.
func (h hello) answers(other hello) bool {
	h.from, h.to = h.to, h.from
	h.nonce = other.nonce
	return h == other
}

// mac authenticates one step of a handshake and the transcript before it.
func mac(key []byte, step byte, transcript []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte{step})
	m.Write(transcript)
	return m.Sum(nil)
}
