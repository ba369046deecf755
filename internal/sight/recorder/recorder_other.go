//go:build !linux

package recorder

import "errors"

// Recorder is the record of one rank; there is none on this system.
type Recorder struct{}

// New reports that there is no record on this system.
func New(rank, size, epoch int) (*Recorder, error) {
	return nil, errors.New("records of calls need Linux")
}

// AllowTracer does nothing.
func AllowTracer(guard string) {}

// Joined does nothing.
func (r *Recorder) Joined() {}

// Close does nothing.
func (r *Recorder) Close() {}

// Lane returns nil.
func (r *Recorder) Lane(name string, size int) *Lane { return nil }

// Submitted does nothing.
func (r *Recorder) Submitted(comm string, kind uint8, bytes uint64, name string) (slot int) { return 0 }

// Done does nothing.
func (r *Recorder) Done(slot int) {}

// Lane is nil.
type Lane struct{}

// Close does nothing.
func (l *Lane) Close() {}

// Enter does nothing.
func (l *Lane) Enter(kind uint8, seq, bytes uint64, to, from int, name string, more int) {}

// Leave does nothing.
func (l *Lane) Leave(brief bool) {}
