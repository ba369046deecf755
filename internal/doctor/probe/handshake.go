package probe

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"io"
	"net"
)

// Both ends of a connection prove that they are probes of this examination, before anything else is read:
//
//	acceptor → nonce
//	dialer   → purpose, rank, nonce, MAC(1 ‖ all before)
//	acceptor → MAC(2 ‖ all before)
//
// The key of two ranks is made of the secrets that both gave to the fence, which only ranks of the job see.
const (
	nonceSize = 16
	helloSize = 1 + 4 + nonceSize + sha256.Size
)

var errStranger = errors.New("the other end is no probe of this examination")

// purpose is what a connection is for.
type purpose byte

const (
	talk    purpose = 'T' // messages of both
	deliver purpose = 'D' // data of the dialer
	fetch   purpose = 'F' // data of the acceptor
)

func mac(key []byte, step byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte{step})
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// introduce is the dialer's side.
func introduce(conn net.Conn, key []byte, why purpose, rank int) error {
	theirs := make([]byte, nonceSize)
	if _, err := io.ReadFull(conn, theirs); err != nil {
		return err
	}
	hello := append([]byte{byte(why)}, binary.BigEndian.AppendUint32(nil, uint32(rank))...)
	mine := make([]byte, nonceSize)
	_, _ = rand.Read(mine) // never fails
	hello = append(hello, mine...)
	proof := mac(key, 1, theirs, hello)
	if _, err := conn.Write(append(hello, proof...)); err != nil {
		return err
	}
	answer := make([]byte, sha256.Size)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(answer, mac(key, 2, theirs, hello, proof)) != 1 {
		return errStranger
	}
	return nil
}

// admit is the acceptor's side. It returns what the dialer wants, and its rank.
func admit(conn net.Conn, keyOf func(rank int) []byte) (purpose, int, error) {
	mine := make([]byte, nonceSize)
	_, _ = rand.Read(mine)
	if _, err := conn.Write(mine); err != nil {
		return 0, 0, err
	}
	hello := make([]byte, helloSize)
	if _, err := io.ReadFull(conn, hello); err != nil {
		return 0, 0, err
	}
	said, proof := hello[:helloSize-sha256.Size], hello[helloSize-sha256.Size:]
	rank := int(binary.BigEndian.Uint32(said[1:5]))
	key := keyOf(rank)
	if key == nil || subtle.ConstantTimeCompare(proof, mac(key, 1, mine, said)) != 1 {
		return 0, 0, errStranger
	}
	_, err := conn.Write(mac(key, 2, mine, said, proof))
	return purpose(said[0]), rank, err
}
