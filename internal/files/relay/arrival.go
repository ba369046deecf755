package relay

import (
	"errors"
	"path/filepath"

	"github.com/gorun/gorun/internal/files/space"
	"github.com/gorun/gorun/internal/net/wire"
)

// Arrival is an offered file that comes over one connection, from its beginning to its end. It is
// for one goroutine.
type Arrival struct {
	offer  wire.Offer
	target Target
	blob   *blob // nil: the target has the file
}

// Arrive begins to take an offered file into a target of [KeepIn]: no more than the offered bytes
// are written, and none if they do not fit. Close the arrival, which closes target.
func Arrive(o wire.Offer, target Target) (*Arrival, error) {
	a := &Arrival{offer: o, target: target}
	if _, is := target.(Ready); is {
		return a, nil
	}
	var err error
	if a.blob, err = newBlob(target.File(), o); err == nil {
		err = space.Check(filepath.Dir(target.File().Name()), o.Size-a.Have())
	}
	if err != nil {
		return nil, errors.Join(err, target.Close())
	}
	return a, nil
}

// Have returns how many bytes are there and right.
func (a *Arrival) Have() int64 {
	if a.blob == nil {
		return a.offer.Size
	}
	return a.blob.have()
}

// Whole reports whether all bytes are there.
func (a *Arrival) Whole() bool { return a.Have() == a.offer.Size }

// Write takes the bytes after those that were there.
func (a *Arrival) Write(p []byte) (int, error) {
	if a.blob == nil {
		return 0, errOther
	}
	n, err := a.blob.Write(p)
	return n, noRoom(a.target, a.offer, err)
}

// Finish puts the whole file in its place.
func (a *Arrival) Finish() error {
	if a.blob == nil {
		return nil
	}
	_, err := a.target.Finish()
	return err
}

// Close keeps what has come for a later launch, unless the file is in its place.
func (a *Arrival) Close() error { return a.target.Close() }

// IsOther reports whether an error is that other bytes came than the offered ones.
func IsOther(err error) bool { return errors.Is(err, errOther) }
