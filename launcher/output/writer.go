package output

import (
	"errors"
	"io"
	"sync"
	"time"
)

// stuckTime is how long a blocked write may delay exit after a stop request.
const stuckTime = 500 * time.Millisecond

var errAbandoned = errors.New("nobody takes the output")

// Writer writes in a separate goroutine, so that a write that never ends (to a stopped pager) can
// be abandoned. That goroutine then remains in its write.
type Writer struct {
	data      chan []byte
	result    chan error
	abandoned chan struct{}

	mu    sync.Mutex
	began time.Time // start of the write in progress; zero: there is none
	once  sync.Once
}

func newWriter(w io.Writer) *Writer {
	p := &Writer{data: make(chan []byte), result: make(chan error, 1), abandoned: make(chan struct{})}
	go func() {
		for data := range p.data {
			_, err := w.Write(data)
			p.result <- err
		}
	}()
	return p
}

// write writes data, which must not be changed after errAbandoned.
func (p *Writer) write(data []byte) error {
	p.mark(time.Now())
	defer p.mark(time.Time{})
	p.data <- data
	select {
	case err := <-p.result:
		return err
	case <-p.abandoned:
		return errAbandoned
	}
}

func (p *Writer) mark(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = at
}

// AbandonIfStuck ends a write that makes no headway.
func (p *Writer) AbandonIfStuck() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.began.IsZero() && time.Since(p.began) > stuckTime {
		p.once.Do(func() { close(p.abandoned) })
	}
}

func (p *Writer) close() { close(p.data) }
