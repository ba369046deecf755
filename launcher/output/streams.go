package output

import "github.com/gorun/gorun/internal/net/wire"

// Streams are the printers of a job's output streams.
type Streams struct{ stdout, stderr, results *Printer }

// NewStreams starts the printers. Without a W, stderr goes to stdout's printer. Without results
// there is no such stream.
func NewStreams(stdout, stderr Printing, results *Results) *Streams {
	s := &Streams{stdout: NewPrinter(stdout)}
	if s.stderr = s.stdout; stderr.W != nil {
		s.stderr = NewPrinter(stderr)
	}
	if results != nil {
		s.results = results.printer()
	}
	return s
}

// Of returns the printer of a stream; nil: the job has no such stream.
func (s *Streams) Of(fd int) *Printer {
	switch fd {
	case wire.Stdout:
		return s.stdout
	case wire.Stderr:
		return s.stderr
	case wire.Result:
		return s.results
	}
	return nil
}

// Visible reports whether the last n lines of a rank's stderr were shown, with few lines between
// and after them. It must follow Close.
func (s *Streams) Visible(rank, n int) bool { return s.stderr.visible(rank, n) }

// LastLines returns the last lines of a rank's stderr, 8 KiB at most, safe for a terminal. It must
// follow Close.
func (s *Streams) LastLines(rank int) []string { return s.stderr.lastLines(rank) }

// OpenLine reports whether the last line where stderr goes has no end. It must follow Close.
func (s *Streams) OpenLine() bool { return s.stderr.openLine() }

// AbandonIfStuck ends writes to the terminal that make no headway.
func (s *Streams) AbandonIfStuck() {
	s.stdout.Writer.AbandonIfStuck()
	s.stderr.Writer.AbandonIfStuck()
}

// Close writes all that is left, and waits for that.
func (s *Streams) Close() {
	s.stdout.Close()
	if s.stderr != s.stdout {
		s.stderr.Close()
	}
	if s.results != nil {
		s.results.Close()
	}
}
