package fetch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/net/wire"
)

const (
	maxAhead   = 8       // files that are offered before the pieces of the first are sent
	bytesAhead = 4 << 20 // bytes of such files: sums of large ones would hold the first up
)

// Send answers a launcher that asks for files below home. next returns the frames after that. The
// caller reports an error to the launcher.
func Send(ctx context.Context, ask wire.Fetch, next func() (wire.Frame, error), out *wire.Writer, home string) error {
	f, err := find(ask, home)
	if err != nil {
		return err
	}
	list := bufio.NewWriterSize(lines{out}, wire.MaxData)
	if err := errors.Join(f.write(list), list.Flush()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	s := &sending{out: out, answers: make(chan wire.Offered, maxAhead)}
	work.Go(func() {
		if err := s.all(ctx, f.sources()); err != nil && ctx.Err() == nil {
			// The launcher then ends the exchange.
			why := relay.Plainly(err).Error()
			_ = out.SendMessage(wire.TypeRefuse, wire.Refuse{Code: wire.CodeHostFailed, What: why})
		}
	})
	for {
		f, err := next()
		if err != nil {
			return err
		}
		switch f.Type {
		case wire.TypeOffered:
			var o wire.Offered
			if err := f.Decode(&o); err != nil {
				return err
			}
			select {
			case s.answers <- o:
			default:
				return &wire.FormatError{Reason: "an answer to a file that was not offered"}
			}
		case wire.TypeEnough:
			return nil
		default:
			return &wire.FormatError{Reason: fmt.Sprintf("%s came while files were sent", f.Type)}
		}
	}
}

// source is a file of the list and where it is.
type source struct {
	workdir.Entry
	place
}

// open opens the file that was listed. Another user may have put a link in its place, to a file
// that only this user may read.
func (s source) open() (*relay.Source, error) {
	file, err := relay.OpenFirst(s.path, s.Size)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && placeOf(s.path, info) != s.place {
		err = replaced(s.path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// sending is the state of files on their way.
type sending struct {
	out     *wire.Writer
	answers chan wire.Offered // answers in the order of the offers
	offered []*relay.Source   // offered files that were not sent yet
	bytes   int64             // size of the offered files
}

func (s *sending) all(ctx context.Context, files []source) error {
	defer s.close()
	for _, f := range files {
		for len(s.offered) == maxAhead || len(s.offered) > 0 && s.bytes+f.Size > bytesAhead {
			if err := s.first(ctx); err != nil {
				return err
			}
		}
		src, err := f.open()
		if err != nil {
			return err
		}
		s.offered = append(s.offered, src)
		s.bytes += f.Size
		if err := s.out.SendMessage(wire.TypeOffer, src.Offer(wire.Place{
			Name:  []byte(f.Path),
			Mode:  uint32(f.Mode),
			Mtime: time.Duration(f.Mtime),
		})); err != nil {
			return err
		}
	}
	for len(s.offered) > 0 {
		if err := s.first(ctx); err != nil {
			return err
		}
	}
	return nil
}

// first sends what the launcher lacks of the first file.
func (s *sending) first(ctx context.Context) error {
	src := s.offered[0]
	var o wire.Offered
	select {
	case o = <-s.answers:
	case <-ctx.Done():
		return ctx.Err()
	}
	if o.Have < 0 || o.Have > src.Size() {
		return &wire.FormatError{Reason: fmt.Sprintf("%d bytes of %d are there", o.Have, src.Size())}
	}
	in := src.From(o.Have)
	data := make([]byte, min(wire.MaxData, in.Size()))
	for left := in.Size(); left > 0 && ctx.Err() == nil; {
		n, err := in.Read(data)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			return errors.New("a file became shorter while it was copied")
		}
		if err := s.out.Send(wire.TypePiece, 0, data[:n]); err != nil {
			return err
		}
		left -= int64(n)
	}
	s.offered = s.offered[1:]
	s.bytes -= src.Size()
	return errors.Join(ctx.Err(), src.Close())
}

// close closes the files that were not sent.
func (s *sending) close() {
	for _, src := range s.offered {
		_ = src.Close() // it was only read
	}
	s.offered = nil
}
