package ssh

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"

	xssh "golang.org/x/crypto/ssh"
)

// Numbers of SSH messages (RFC 4250).
const (
	msgDisconnect     = 1
	msgServiceRequest = 5
	msgServiceAccept  = 6
	msgKexInit        = 20
	msgNewKeys        = 21
	msgKexReply       = 31
	msgAuthRequest    = 50
	msgAuthFailure    = 51
	msgAuthSuccess    = 52
	msgAuthBanner     = 53
	msgGlobalRequest  = 80
	msgGlobalSuccess  = 81
	msgChannelOpen    = 90
	msgChannelConfirm = 91
	msgChannelFailure = 92
	msgWindowAdjust   = 93
	msgChannelData    = 94
	msgChannelEOF     = 96
	msgChannelClose   = 97
	msgChannelRequest = 98
	msgChannelSuccess = 99
)

// rawServer is an SSH server that sends any bytes that a test wants, also where no library would.
// Left alone it lets everybody in, and answers a command with "data" and status 0. It knows one set
// of algorithms.
type rawServer struct {
	conn    net.Conn
	key     xssh.Signer
	hostKey []byte                       // in the place of the key's blob
	at      map[string]func()            // called before the answer to auth, open, exec
	change  func(packet []byte) [][]byte // what is sent in the place of a packet; nil: itself

	heard      func([]byte) // of every message
	mute       bool         // at has answered itself
	seal, open *gcm         // nil before the keys
	channel    uint32
}

// gcm is aes128-gcm@openssh.com in one direction.
type gcm struct {
	aead cipher.AEAD
	iv   []byte
}

func newGCM(key, iv []byte) *gcm {
	block, _ := aes.NewCipher(key[:16])
	aead, _ := cipher.NewGCM(block)
	return &gcm{aead, iv[:12]}
}

func (g *gcm) next() []byte {
	iv := bytes.Clone(g.iv)
	binary.BigEndian.PutUint64(g.iv[4:], binary.BigEndian.Uint64(g.iv[4:])+1)
	return iv
}

// text and word are a string and a number of the protocol.
func text[T string | []byte](s T) []byte { return append(word(uint32(len(s))), s...) }
func word(n uint32) []byte               { return binary.BigEndian.AppendUint32(nil, n) }

// packet joins a message's number and fields.
func packet(number byte, fields ...[]byte) []byte {
	return append([]byte{number}, bytes.Join(fields, nil)...)
}

// send sends a message, or what change makes of it.
func (r *rawServer) send(number byte, fields ...[]byte) error {
	p := packet(number, fields...)
	if r.change == nil {
		return r.write(p)
	}
	for _, p := range r.change(p) {
		if err := r.write(p); err != nil {
			return err
		}
	}
	return nil
}

func (r *rawServer) write(payload []byte) error {
	block := 8
	head := 4
	if r.seal != nil {
		block = 16
		head = 0
	}
	pad := block - (head+1+len(payload))%block
	if pad < 4 {
		pad += block
	}
	body := append([]byte{byte(pad)}, payload...)
	body = append(body, make([]byte, pad)...)
	length := word(uint32(len(body)))
	if r.seal != nil {
		body = r.seal.aead.Seal(nil, r.seal.next(), body, length)
	}
	_, err := r.conn.Write(append(length, body...))
	return err
}

// read returns the next message of the client.
func (r *rawServer) read() ([]byte, error) {
	length := make([]byte, 4)
	if _, err := io.ReadFull(r.conn, length); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length)
	if r.open != nil {
		n += 16
	}
	if n > 1<<20 {
		return nil, errors.New("the client sends an endless packet")
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r.conn, body); err != nil {
		return nil, err
	}
	if r.open != nil {
		var err error
		if body, err = r.open.aead.Open(nil, r.open.next(), body, length); err != nil {
			return nil, err
		}
	}
	if len(body) < 2 || int(body[0])+2 > len(body) {
		return nil, errors.New("the client sends a packet without content")
	}
	p := body[1 : len(body)-int(body[0])]
	if r.heard != nil {
		r.heard(p)
	}
	return p, nil
}

// version exchanges banners and returns both.
func (r *rawServer) version() (client, server string, err error) {
	const mine = "SSH-2.0-raw"
	if _, err := io.WriteString(r.conn, mine+"\r\n"); err != nil {
		return "", "", err
	}
	var line []byte
	for one := make([]byte, 1); one[0] != '\n'; line = append(line, one[0]) {
		if _, err := io.ReadFull(r.conn, one); err != nil {
			return "", "", err
		}
	}
	return strings.TrimRight(string(line), "\r\n"), mine, nil
}

// algorithms is the content of the only KEXINIT that the server knows.
func (r *rawServer) algorithms() []byte {
	kind := r.key.PublicKey().Type()
	if r.hostKey != nil {
		kind = xssh.KeyAlgoRSASHA512
	}
	lists := [][]byte{make([]byte, 16)}
	for _, names := range []string{"curve25519-sha256", kind, "aes128-gcm@openssh.com", "aes128-gcm@openssh.com",
		"hmac-sha2-256", "hmac-sha2-256", "none", "none", "", ""} {
		lists = append(lists, text(names))
	}
	return bytes.Join(append(lists, make([]byte, 5)), nil)
}

// kex agrees on keys.
func (r *rawServer) kex() error {
	clientVersion, serverVersion, err := r.version()
	if err != nil {
		return err
	}
	mine := packet(msgKexInit, r.algorithms())
	if err := r.send(msgKexInit, r.algorithms()); err != nil {
		return err
	}
	theirs, err := r.read()
	if err != nil {
		return err
	}
	init, err := r.read()
	if err != nil {
		return err
	}
	if len(init) != 37 {
		return errors.New("the client does not begin with an X25519 key")
	}
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	public, err := ecdh.X25519().NewPublicKey(init[5:])
	if err != nil {
		return err
	}
	secret, err := private.ECDH(public)
	if err != nil {
		return err
	}
	shared := xssh.Marshal(struct{ K *big.Int }{new(big.Int).SetBytes(secret)})
	blob := r.key.PublicKey().Marshal()
	if r.hostKey != nil {
		blob = r.hostKey
	}
	ours := private.PublicKey().Bytes()
	h := sha256.Sum256(bytes.Join([][]byte{text(clientVersion), text(serverVersion), text(theirs), text(mine),
		text(blob), init[1:], text(ours), shared}, nil))
	signature, err := r.key.Sign(rand.Reader, h[:])
	if err != nil {
		return err
	}
	if r.hostKey != nil { // one that must be looked at, and cannot be right
		signature = &xssh.Signature{Format: xssh.KeyAlgoRSASHA512, Blob: make([]byte, 2048)}
	}
	if err := r.send(msgKexReply, text(blob), text(ours), text(xssh.Marshal(signature))); err != nil {
		return err
	}
	if err := r.send(msgNewKeys); err != nil {
		return err
	}
	derive := func(letter byte) []byte {
		sum := sha256.Sum256(bytes.Join([][]byte{shared, h[:], {letter}, h[:]}, nil))
		return sum[:]
	}
	r.seal = newGCM(derive('D'), derive('B'))
	if _, err := r.read(); err != nil { // its NEWKEYS
		return err
	}
	r.open = newGCM(derive('C'), derive('A'))
	return nil
}

// serve answers the client until an error.
func (r *rawServer) serve() error {
	if err := r.kex(); err != nil {
		return err
	}
	for {
		p, err := r.read()
		if err != nil {
			return err
		}
		switch r.mute = false; p[0] {
		case msgServiceRequest:
			err = r.send(msgServiceAccept, text("ssh-userauth"))
		case msgAuthRequest:
			if !r.before("auth") {
				err = r.send(msgAuthSuccess)
			}
		case msgChannelOpen:
			r.channel = binary.BigEndian.Uint32(p[len(p)-12:])
			if !r.before("open") {
				err = r.send(msgChannelConfirm, word(r.channel), word(0), word(1<<20), word(1<<15))
			}
		case msgChannelRequest:
			if !r.before("exec") {
				err = r.answer()
			}
		}
		if err != nil {
			return err
		}
	}
}

// before reports that the test has answered.
func (r *rawServer) before(point string) bool {
	if f := r.at[point]; f != nil {
		f()
	}
	return r.mute
}

// answer is what a command comes to.
func (r *rawServer) answer() error {
	return errors.Join(
		r.send(msgChannelSuccess, word(r.channel)),
		r.send(msgChannelData, word(r.channel), text("data")),
		r.send(msgChannelRequest, word(r.channel), text("exit-status"), []byte{0}, word(0)),
		r.send(msgChannelClose, word(r.channel)),
	)
}
