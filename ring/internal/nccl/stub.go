//go:build !cgo || !linux

package nccl

import (
	"errors"
	"unsafe"
)

// Without cgo on Linux [OpenGPU] and [Find] fail, so that there is nothing to call a method of.

var errNoCgo = errors.New("this program was built without cgo or not for Linux, so no GPU can be used")

type (
	// Library is libnccl.
	Library struct {
		Path    string
		Version int
	}
	// GPU is a GPU's primary context.
	GPU struct{}
	// Comm is a communicator.
	Comm struct{}
	// Stream is a CUstream.
	Stream uintptr
	// Event is a CUevent.
	Event uintptr
)

// OpenGPU fails.
func OpenGPU(func(string) (string, bool), int) (*GPU, error) { return nil, errNoCgo }

// Find fails.
func Find(func(string) (string, bool)) (*Library, error) { return nil, errNoCgo }

// What follows is never called.

func (l *Library) String() string                  { return version(l.Version) }
func (l *Library) Close()                          {}
func (l *Library) CanScale() bool                  { return false }
func (l *Library) UniqueID() ([IDSize]byte, error) { return [IDSize]byte{}, errNoCgo }
func (l *Library) Init(*GPU, int, [IDSize]byte, int) (*Comm, error) {
	return nil, errNoCgo
}

func (g *GPU) Close() error                                              { return errNoCgo }
func (g *GPU) Alloc(int) (uintptr, error)                                { return 0, errNoCgo }
func (g *GPU) Free(uintptr) error                                        { return errNoCgo }
func (g *GPU) AllocHost(int) (unsafe.Pointer, error)                     { return nil, errNoCgo }
func (g *GPU) FreeHost(unsafe.Pointer) error                             { return errNoCgo }
func (g *GPU) CopyIn(uintptr, unsafe.Pointer, int, Stream, Event) error  { return errNoCgo }
func (g *GPU) CopyOut(unsafe.Pointer, uintptr, int, Stream, Event) error { return errNoCgo }
func (g *GPU) NewStream() (Stream, error)                                { return 0, errNoCgo }
func (g *GPU) FreeStream(Stream) error                                   { return errNoCgo }
func (g *GPU) StreamDone(Stream) (bool, error)                           { return false, errNoCgo }
func (g *GPU) NewEvent() (Event, error)                                  { return 0, errNoCgo }
func (g *GPU) FreeEvent(Event) error                                     { return errNoCgo }
func (g *GPU) Record(Event, Stream) error                                { return errNoCgo }
func (g *GPU) EventDone(Event) (bool, error)                             { return false, errNoCgo }
func (c *Comm) State() Result                                            { return InvalidArgument }
func (c *Comm) Launch([]Step, Stream, Event) (Result, error)             { return InvalidArgument, errNoCgo }
func (c *Comm) Fault(string, Result) error                               { return errNoCgo }
func (c *Comm) Finalize() Result                                         { return Success }
func (c *Comm) Destroy() error                                           { return errNoCgo }
func (c *Comm) Abort() error                                             { return errNoCgo }
