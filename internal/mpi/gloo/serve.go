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
	requestTime = 5 * time.Second // bound on the arrival of a whole request
	maxOpen     = 1 << 10         // connections of one rank at a time; the client opens one
)

// Listen opens a port for a rank, on loopback.
func Listen() (net.Listener, error) {
	config := net.ListenConfig{KeepAlive: -1}
	config.SetMultipathTCP(false)
	listener, err := config.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return lean(listener)
}

// replier answers requests. It calls wait before it waits for other ranks.
type replier interface {
	reply(ctx context.Context, req request, body []byte, wait func()) answer
}

// server serves one rank's port. One goroutine leads: it accepts connections and answers them in
// turn. Before it waits it passes the lead to another goroutine. Most requests do not wait, so they
// need no goroutine of their own.
type server struct {
	rank    replier
	ctx     context.Context // context of the port
	cancel  context.CancelFunc
	port    net.Listener
	admit   func(net.Conn) bool
	wg      sync.WaitGroup
	slots   chan struct{} // slots for goroutines that do not lead
	writing sync.Mutex    // held while an answer is written
	buffers *sync.Pool    // buffers of answers, as *[]byte
}

func newBuffers() *sync.Pool { return &sync.Pool{New: func() any { return new([]byte) }} }

// Serve answers a rank at its own port until the listener is closed, and returns when all
// connections have ended. admit reports whether a connection's peer is allowed.
func (r *Rank) Serve(listener net.Listener, admit func(net.Conn) bool) {
	serve(r.host.ctx, r, r.host.buffers, listener, admit)
}

func serve(ctx context.Context, rank replier, buffers *sync.Pool, listener net.Listener, admit func(net.Conn) bool) {
	ctx, cancel := context.WithCancel(ctx)
	s := &server{
		rank:    rank,
		ctx:     ctx,
		cancel:  cancel,
		port:    listener,
		admit:   admit,
		slots:   make(chan struct{}, maxOpen),
		buffers: buffers,
	}
	s.wg.Go(s.lead)
	s.wg.Wait()
}

func (s *server) lead() {
	var head [maxHead]byte
	for {
		conn, err := s.port.Accept()
		if errors.Is(err, net.ErrClosed) {
			s.cancel() // ends all waits
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // likely out of descriptors
			continue
		}
		leads := true
		follow := func() {
			if leads {
				leads = false
				s.slots <- struct{}{}
				s.wg.Go(s.lead)
			}
		}
		if c, tells := conn.(interface{ beforeWait(func()) }); tells {
			c.beforeWait(follow)
		} else {
			follow()
		}
		if s.admit(conn) {
			s.answer(conn, head[:], follow)
		}
		conn.Close()
		if !leads {
			<-s.slots
			return
		}
	}
}

func (s *server) answer(conn net.Conn, buf []byte, wait func()) {
	_ = conn.SetDeadline(time.Now().Add(requestTime))
	req, rest, err := readHead(conn, buf)
	if errors.Is(err, errHead) {
		_, _ = conn.Write(badRequest().append(nil))
	}
	if err != nil {
		return
	}
	body, err := readBody(conn, rest, req.length)
	if err != nil {
		return
	}
	s.write(conn, s.rank.reply(s.ctx, req, body, wait), wait)
}

// write sends an answer. A rank's answers are sent one after the other, so unread answers do not
// accumulate.
func (s *server) write(conn net.Conn, a answer, wait func()) {
	if !s.writing.TryLock() {
		wait()
		s.writing.Lock()
	}
	defer s.writing.Unlock()
	buf := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buf)
	*buf = a.append((*buf)[:0])
	_ = conn.SetDeadline(time.Now().Add(requestTime))
	_, _ = conn.Write(*buf)
}

func readBody(conn io.Reader, rest []byte, length int) ([]byte, error) {
	if length > maxRanks*recordSize || length < len(rest) {
		return nil, errHead
	}
	if length == 0 {
		return nil, nil
	}
	body := make([]byte, length)
	n := copy(body, rest)
	_, err := io.ReadFull(conn, body[n:])
	return body, err
}

// reply is replier's.
func (r *Rank) reply(ctx context.Context, req request, body []byte, wait func()) answer {
	if len(req.scope) > maxName || len(req.key) > maxName {
		return badRequest()
	}
	switch req.method {
	case "PUT":
		wait() // the store may be on another host
		switch err := r.put(req.scope, req.key, body); {
		case errors.Is(err, errTwice):
			return refused()
		case err != nil:
			return failed()
		}
		return ok()
	case "GET":
		switch a, found, err := r.get(ctx, req.scope, req.key, wait); {
		case err != nil:
			return failed()
		case !found:
			return notFound()
		default:
			return a
		}
	case "DELETE":
		r.leave(req.scope, req.key)
		return ok()
	}
	return badRequest()
}
