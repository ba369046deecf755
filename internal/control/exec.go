package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// Exec asks for a command where a rank runs, or, without one, for the rank's own terminal.
type Exec struct {
	Rank     int       `json:"rank"` // -1: Host is given
	Host     string    `json:"host,omitempty"`
	Argv     [][]byte  `json:"argv"` // base64: any byte but NUL
	Terminal *Terminal `json:"terminal,omitempty"`
}

// Terminal is the terminal of a command.
type Terminal struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
	Name    string `json:"name"` // the variable TERM
}

// Signal asks to send a signal to ranks; no ranks: all.
type Signal struct {
	Signal int   `json:"signal"`
	Ranks  []int `json:"ranks,omitempty"`
}

// Stacks asks what ranks do; no ranks: all. The answer is {"ranks": [...]} of stacks.Rank.
type Stacks struct {
	Ranks []int `json:"ranks,omitempty"`
}

// ExecProtocol is what the connection of an Exec is upgraded to: frames of a kind (1 byte), a length (4 bytes, network order) and data.
const ExecProtocol = "gorun-exec"

// Kinds of frames. Both ends send them as they come; the socket itself holds back a sender that is too fast.
const (
	FrameIn   byte = 1 // to the command's standard input; none: its end
	FrameOut  byte = 2
	FrameErr  byte = 3
	FrameSize byte = 4 // Terminal as JSON
	FrameEnd  byte = 6 // {"code","error"} as JSON, the last frame
)

// maxFrame bounds the data of a frame.
const maxFrame = 64 << 10

// WriteFrame writes a frame.
func WriteFrame(w io.Writer, kind byte, data []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(data))), data...))
	return err
}

// ReadFrame reads a frame.
func ReadFrame(r io.Reader) (kind byte, data []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes", size)
	}
	data = make([]byte, size)
	_, err = io.ReadFull(r, data)
	return head[0], data, err
}

// Upgrade answers a request for ExecProtocol and returns its connection, which the caller closes. Bytes that came early are read from r.
func Upgrade(w http.ResponseWriter, r *http.Request) (conn net.Conn, early io.Reader, err error) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), ExecProtocol) {
		http.Error(w, "expected Upgrade: "+ExecProtocol, http.StatusUpgradeRequired)
		return nil, nil, fmt.Errorf("no upgrade to %s", ExecProtocol)
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", ExecProtocol)
	if err != nil {
		conn.Close()
	}
	return conn, buffered.Reader, err
}

// Exec begins a command and returns its connection, and what to read its frames from. The caller closes the connection.
func (c *Client) Exec(ctx context.Context, what Exec) (net.Conn, io.Reader, error) {
	text, err := json.Marshal(what)
	if err != nil {
		return nil, nil, err
	}
	conn, err := c.Dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gorun/v1/exec", bytes.NewReader(text))
	if err == nil {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", ExecProtocol)
		err = r.Write(conn)
	}
	read := bufio.NewReader(conn)
	var answer *http.Response
	if err == nil {
		answer, err = http.ReadResponse(read, r)
	}
	if err == nil && answer.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
		answer.Body.Close()
		err = &AnswerError{answer.StatusCode, strings.TrimSpace(string(text))}
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, read, nil
}
