package lab

import (
	"bytes"
	"sync"
)

// Output is a buffer that may be read while a process writes it.
type Output struct {
	mu   sync.Mutex
	data []byte
}

// Write appends p.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.data = append(o.data, p...)
	return len(p), nil
}

// Hold blocks the writer until release is called, as a stalled reader does. Output must not be read
// meanwhile.
func (o *Output) Hold() (release func()) {
	o.mu.Lock()
	return o.mu.Unlock
}

// Bytes returns a copy of what has been written.
func (o *Output) Bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.data)
}

// String returns what has been written.
func (o *Output) String() string { return string(o.Bytes()) }

// Len returns how many bytes have been written.
func (o *Output) Len() int { return len(o.Bytes()) }
