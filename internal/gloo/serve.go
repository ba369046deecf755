package gloo

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	requestTime = 5 * time.Second // for a request to come in whole
	maxOpen     = 1 << 10         // connections of one rank at a time, which opens one at a time
)

// Listen opens a port for a rank, on loopback. What it saves in system calls counts, a connection is one request.
func Listen() (net.Listener, error) {
	config := net.ListenConfig{KeepAlive: -1}
	config.SetMultipathTCP(false)
	return config.Listen(context.Background(), "tcp4", "127.0.0.1:0")
}

// Serve answers a rank at its own port until the listener is closed, and returns when all connections
// have ended. admit says whether a connection comes from who may ask.
func (r *Rank) Serve(listener net.Listener, admit func(net.Conn) bool) {
	ctx, cancel := context.WithCancel(r.host.ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	slots := make(chan struct{}, maxOpen)
	buffers := sync.Pool{New: func() any { return new([maxHead]byte) }}
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // no descriptors: some will be closed
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			defer conn.Close()
			if !admit(conn) {
				return
			}
			buf := buffers.Get().(*[maxHead]byte)
			defer buffers.Put(buf)
			r.answer(ctx, conn, buf[:])
		})
	}
}

// answer reads one request and answers it.
func (r *Rank) answer(ctx context.Context, conn net.Conn, buf []byte) {
	_ = conn.SetDeadline(time.Now().Add(requestTime))
	req, rest, err := readHead(conn, buf)
	if errors.Is(err, errHead) {
		reply := badRequest()
		_, _ = reply.WriteTo(conn)
	}
	if err != nil {
		return
	}
	body, err := readBody(conn, rest, req.length)
	if err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	// The client gives up by closing; a closed listener ends the wait of all.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	reply := r.reply(ctx, req, body)
	_ = conn.SetWriteDeadline(time.Now().Add(requestTime))
	_, _ = reply.WriteTo(conn)
}

func readBody(conn io.Reader, rest []byte, length int) ([]byte, error) {
	if length > maxRanks*recordSize || length < len(rest) {
		return nil, errHead
	}
	body := make([]byte, length)
	n := copy(body, rest)
	_, err := io.ReadFull(conn, body[n:])
	return body, err
}

// reply does what a request asks for.
func (r *Rank) reply(ctx context.Context, req request, body []byte) net.Buffers {
	if len(req.scope) > maxName || len(req.key) > maxName {
		return badRequest()
	}
	switch req.method {
	case "PUT":
		switch err := r.put(req.scope, req.key, body); {
		case errors.Is(err, errTwice):
			return refused()
		case err != nil:
			return failed()
		}
		return ok(nil)
	case "GET":
		switch value, found, err := r.get(ctx, req.scope, req.key); {
		case err != nil:
			return failed()
		case !found:
			return notFound()
		default:
			return ok(value)
		}
	case "DELETE":
		r.leave(req.scope, req.key)
		return ok(nil)
	}
	return badRequest()
}
