package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/wire"
)

// Exec requests a command in a rank's environment, a connection with a port of the rank's host or,
// without either, the rank's own terminal.
type Exec struct {
	Rank     int            `json:"rank"` // rank whose environment is used; -1: Host is given
	Host     string         `json:"host,omitempty"`
	Argv     wire.Texts     `json:"argv"`
	Port     int            `json:"port,omitempty"` // TCP port
	Terminal *wire.Terminal `json:"terminal,omitempty"`
}

// Signal requests a signal to ranks; no ranks: all.
type Signal struct {
	Signal int   `json:"signal"`
	Ranks  []int `json:"ranks,omitempty"`
}

// Stacks requests the stacks of ranks; no ranks: all. The answer is {"ranks": [...]} of
// stacks.Rank.
type Stacks struct {
	Ranks []int `json:"ranks,omitempty"`
}

// ExecProtocol is the protocol of an Exec's upgraded connection: the frames of package frames.
const ExecProtocol = "gorun-exec"

// Upgrade accepts a request for ExecProtocol and returns its connection, which the caller closes.
// The returned reader also yields bytes that arrived early.
func Upgrade(w http.ResponseWriter, r *http.Request) (conn net.Conn, early io.Reader, err error) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), ExecProtocol) {
		http.Error(w, "expected Upgrade: "+ExecProtocol, http.StatusUpgradeRequired)
		return nil, nil, fmt.Errorf("no upgrade to %s", ExecProtocol)
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		ExecProtocol)
	if err != nil {
		conn.Close()
	}
	return conn, buffered.Reader, err
}

// hangUpPeriod is the time between looks at a connection.
const hangUpPeriod = time.Second

// AwaitHangUp returns when the other end of a connection of Upgrade has closed it, or ctx has
// ended. Whoever reads the connection does not learn of that while bytes before the end wait to be
// passed on.
func AwaitHangUp(ctx context.Context, conn net.Conn) {
	ticker := time.NewTicker(hangUpPeriod)
	defer ticker.Stop()
	for !hungUp(conn) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func hungUp(conn net.Conn) bool {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	var one [1]unix.PollFd
	err = raw.Control(func(fd uintptr) {
		one[0].Fd = int32(fd)
		_, _ = unix.Poll(one[:], 0) // events of an interrupted call come again
	})
	return err != nil || one[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}

// Exec starts a command and returns its connection and the reader of its frames. The caller closes
// the connection.
func (c *Client) Exec(ctx context.Context, what Exec) (net.Conn, io.Reader, error) {
	return c.Upgrade(ctx, "/v1/exec", what)
}

// Upgrade posts a message as JSON, switches the connection to ExecProtocol, and returns it with the
// reader of its frames. The caller closes the connection.
func (c *Client) Upgrade(ctx context.Context, path string, message any) (net.Conn, io.Reader, error) {
	text, err := json.Marshal(message)
	if err != nil {
		return nil, nil, err
	}
	conn, err := c.Dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gorun"+path, bytes.NewReader(text))
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
		err = refusal(answer)
	}
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, read, nil
}
