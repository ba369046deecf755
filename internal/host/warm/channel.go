package warm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// answerTime bounds the wait for an interpreter that must only fork.
	answerTime = 30 * time.Second
	// maxAnswer bounds an answer in bytes.
	maxAnswer = 64 << 10
)

// channel is a stream of messages to an interpreter, each a list of strings and some open files:
// the length of the message, and for each string its length and the string. A length has four bytes
// in the machine's order.
type channel struct{ conn *net.UnixConn }

// pair returns the two ends of a new stream.
func pair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs"), nil
}

// newChannel returns a channel over a file, which it closes.
func newChannel(file *os.File) (channel, error) {
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return channel{}, err
	}
	stream, is := conn.(*net.UnixConn)
	if !is {
		conn.Close()
		return channel{}, errors.New("it is no socket")
	}
	return channel{stream}, nil
}

// ask sends a message and returns what the answer holds. A refusal is a [*Refusal].
func (c channel) ask(within time.Duration, words []string, files []uintptr) (string, error) {
	_ = c.conn.SetDeadline(time.Now().Add(within))
	var body []byte
	for _, word := range words {
		body = binary.NativeEndian.AppendUint32(body, uint32(len(word)))
		body = append(body, word...)
	}
	message := append(binary.NativeEndian.AppendUint32(nil, uint32(len(body))), body...)
	var rights []byte
	if len(files) > 0 {
		var fds []int
		for _, file := range files {
			fds = append(fds, int(file))
		}
		rights = unix.UnixRights(fds...)
	}
	sent, _, err := c.conn.WriteMsgUnix(message[:4], rights, nil)
	if err == nil {
		_, err = c.conn.Write(message[sent:])
	}
	if err != nil {
		return "", err
	}
	answer, err := c.read()
	if err == nil && len(answer) != 2 {
		err = fmt.Errorf("%d words instead of 2", len(answer))
	}
	if err != nil {
		return "", err
	}
	if answer[0] != "yes" {
		return "", &Refusal{answer[1]}
	}
	return answer[1], nil
}

func (c channel) read() (words []string, err error) {
	body, err := c.chunk()
	for len(body) > 0 && err == nil {
		if len(body) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		size := int64(binary.NativeEndian.Uint32(body))
		body = body[4:]
		if size > int64(len(body)) {
			return nil, io.ErrUnexpectedEOF
		}
		words = append(words, string(body[:size]))
		body = body[size:]
	}
	return words, err
}

// chunk reads a length and as many bytes.
func (c channel) chunk() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.NativeEndian.Uint32(head[:])
	if size > maxAnswer {
		return nil, fmt.Errorf("%d bytes are too many", size)
	}
	body := make([]byte, size)
	_, err := io.ReadFull(c.conn, body)
	return body, err
}

// Refusal is why an interpreter does not do what it was asked.
type Refusal struct{ Why string }

func (r *Refusal) Error() string { return r.Why }
