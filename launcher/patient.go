package launcher

import (
	"errors"
	"io"
	"sync"
	"time"
)

// stuckTime is how long nobody may take output before a user who wants the end gets it.
const stuckTime = 500 * time.Millisecond

var errGaveUp = errors.New("nobody takes the output")

// patientWriter writes from a goroutine of its own, so that a write that never ends (a pager that is stopped) can be
// given up. That goroutine then stays behind, in its write.
type patientWriter struct {
	data   chan []byte
	result chan error
	gaveUp chan struct{}

	mu    sync.Mutex
	began time.Time // of the write in progress; zero: there is none
	once  sync.Once
}

func newPatientWriter(w io.Writer) *patientWriter {
	p := &patientWriter{data: make(chan []byte), result: make(chan error, 1), gaveUp: make(chan struct{})}
	go func() {
		for data := range p.data {
			_, err := w.Write(data)
			p.result <- err
		}
	}()
	return p
}

// write writes data, which must not be changed after errGaveUp.
func (p *patientWriter) write(data []byte) error {
	p.mark(time.Now())
	defer p.mark(time.Time{})
	p.data <- data
	select {
	case err := <-p.result:
		return err
	case <-p.gaveUp:
		return errGaveUp
	}
}

func (p *patientWriter) mark(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = at
}

// giveUpIfStuck ends a write that makes no headway.
func (p *patientWriter) giveUpIfStuck() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.began.IsZero() && time.Since(p.began) > stuckTime {
		p.once.Do(func() { close(p.gaveUp) })
	}
}

func (p *patientWriter) close() { close(p.data) }

// hurry lets go of output that nobody takes, once the user wants the end. A job that ends by itself waits: its last
// words are what the user will want to see.
func hurry(wanted bool, printers ...*printer) {
	if !wanted {
		return
	}
	for _, p := range printers {
		p.writer.giveUpIfStuck()
	}
}

// closePrinters writes what is left. Both may be the same one. Nothing of the job is there any more, but the user may still want
// its end sooner: stopped is told of that. hasty says that the user wanted it before.
func closePrinters(hasty bool, stops <-chan Stop, stopped func(Stop), stdout, stderr *printer) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		stdout.close()
		if stderr != stdout {
			stderr.close()
		}
	}()
	look := time.NewTicker(coreTick)
	defer look.Stop()
	for {
		select {
		case <-closed:
			return
		case stop := <-stops:
			hasty = true
			stopped(stop)
		case <-look.C:
			hurry(hasty, stdout, stderr)
		}
	}
}
