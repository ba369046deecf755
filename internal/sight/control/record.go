package control

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gorun/gorun/internal/net/frames"
)

// Record is a piece of a job's output, as it came from a rank.
type Record struct {
	At   time.Time
	Rank int // rank; Own for gorun's own messages
	FD   int // 1 for stdout, 2 for stderr, or Gap
	// Data is empty if the rank pauses in the middle of a line. It is valid until the next record
	// is read.
	Data []byte
	Lost int64 // missing bytes of records; only in a Gap
}

// Size is the record's length in the stream.
func (r Record) Size() int64 {
	if r.FD == Gap {
		return r.Lost
	}
	return int64(recordHead + len(r.Data))
}

const (
	// Own is the rank of gorun's own messages.
	Own = -1
	// Gap is the FD of a record that stands for lost ones.
	Gap = 0
)

// recordHead is the size of a record's head: time in nanoseconds (8 bytes), rank (4), stream (1),
// three zeros, and the length of the data (4), all in network order. The data of a gap is the
// number of lost bytes, in 8 bytes.
const (
	recordHead = 20
	recordSize = 16 // offset of the length
)

// maxRecord bounds the data of a record.
const maxRecord = 64 << 10

func appendHead(to []byte, at time.Time, rank, fd, size int) []byte {
	to = binary.BigEndian.AppendUint64(to, uint64(at.UnixNano()))
	to = binary.BigEndian.AppendUint32(to, uint32(int32(rank)))
	to = append(to, byte(fd), 0, 0, 0)
	return binary.BigEndian.AppendUint32(to, uint32(size))
}

func appendGap(to []byte, lost int64) []byte {
	to = appendHead(to, time.Now(), Own, Gap, 8)
	return binary.BigEndian.AppendUint64(to, uint64(lost))
}

// RecordReader reads records from a stream.
type RecordReader struct{ frames *frames.Reader }

// NewRecordReader returns a reader of records.
func NewRecordReader(r io.Reader) *RecordReader {
	return &RecordReader{frames.Codec{Head: recordHead, Size: recordSize, Check: checkRecord}.NewReader(r)}
}

var errRecord = errors.New("malformed record of output")

func checkRecord(head []byte, size int) error {
	switch {
	case size > maxRecord:
		return fmt.Errorf("%w: %d bytes", errRecord, size)
	case head[12] == Gap && size != 8:
		return fmt.Errorf("%w: gap of %d bytes", errRecord, size)
	}
	return nil
}

// Next returns the next record, or io.EOF.
func (r *RecordReader) Next() (Record, error) {
	head, data, err := r.frames.Next()
	if err != nil {
		return Record{}, err
	}
	rec := Record{
		At:   time.Unix(0, int64(binary.BigEndian.Uint64(head))),
		Rank: int(int32(binary.BigEndian.Uint32(head[8:]))),
		FD:   int(head[12]),
		Data: data,
	}
	if rec.FD == Gap {
		rec.Lost = int64(binary.BigEndian.Uint64(data))
	}
	return rec, nil
}
