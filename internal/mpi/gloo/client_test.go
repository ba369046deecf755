package gloo

import (
	"bufio"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// ask is one request as Horovod's client makes it, byte by byte and call by call.
func (w *world) ask(rank int, method, path string, body []byte) (status int, value []byte, err error) {
	w.requests.Add(1)
	conn, err := dial(w.ports[rank])
	if err != nil {
		return 0, nil, err
	}
	defer unix.Close(int(conn))
	head := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n", method, path, len(body))
	for request := append(head, body...); len(request) > 0; {
		n, err := unix.Write(int(conn), request)
		if err != nil {
			return 0, nil, err
		}
		request = request[n:]
	}
	return readReply(conn)
}

// socket blocks, as the client's do.
type socket int

func dial(port int) (socket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		unix.Close(fd)
		return 0, err
	}
	return socket(fd), nil
}

func (s socket) Read(b []byte) (int, error) {
	for {
		switch n, err := unix.Read(int(s), b); {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// readReply reads as the client does: names of headers are what they are.
func readReply(conn io.Reader) (status int, value []byte, err error) {
	r := bufio.NewReaderSize(conn, 512)
	length := -1
	for n := 0; ; n++ {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, nil, err
		}
		switch {
		case n == 0:
			_, err = fmt.Sscanf(line, "HTTP/1.0 %d", &status)
		case line == "\r\n":
			value = make([]byte, max(length, 0))
			_, err = io.ReadFull(r, value)
			return status, value, err
		default:
			_, _ = fmt.Sscanf(line, "Content-Length: %d", &length)
		}
		if err != nil {
			return 0, nil, err
		}
	}
}
