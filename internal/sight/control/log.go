package control

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/files/trust"
)

const (
	// segmentSize is the size of a full log file, and segments the number of files, so a log has at
	// most 64 MiB.
	segmentSize = 16 << 20
	segments    = 4
)

// log writes a tail to files in a folder. A file's name is the position of its first record, and it
// holds records without a gap. Records that cannot be written are lost; the next file begins behind
// them.
type log struct {
	dir    string
	tail   *Tail
	size   int64       // bytes of a segment
	failed func(error) // called for the first lost record
	file   *os.File    // nil: the next record begins a file
	wrote  int64       // bytes written to file
	broken bool
}

// writeLog writes a tail to its end, or until ctx ends.
func writeLog(ctx context.Context, dir string, tail *Tail, failed func(error)) {
	l := &log{
		dir:    dir,
		tail:   tail,
		size:   segmentSize,
		failed: failed,
	}
	l.run(ctx)
}

func (l *log) run(ctx context.Context) {
	buf := make([]byte, 0, 256<<10)
	for at := int64(0); ; {
		if start := l.tail.Start(); at < start { // the reader of the files sees the gap
			at = start
			l.endFile()
		}
		records, next := l.tail.Read(ctx, at, buf, true)
		if len(records) == 0 {
			break
		}
		if int64(len(records)) == next-at {
			l.write(at, records)
		} else {
			l.endFile() // overtaken between Start and Read
		}
		at = next
		l.tail.took(at)
	}
	l.endFile()
}

// write appends records that begin at a position.
func (l *log) write(at int64, records []byte) {
	err := l.append(at, records)
	if err == nil {
		l.broken = false
		return
	}
	l.endFile()
	if !l.broken {
		l.broken = true
		l.failed(err)
	}
}

func (l *log) append(at int64, records []byte) (err error) {
	if l.file == nil {
		if err = l.begin(at); err != nil {
			return err
		}
	}
	n, err := l.file.Write(records)
	if err != nil {
		if n > 0 { // part of a record
			_ = l.file.Truncate(l.wrote)
		}
		if l.wrote == 0 {
			_ = os.Remove(l.file.Name())
		}
		return err
	}
	if l.wrote += int64(n); l.wrote >= l.size {
		l.endFile()
	}
	return nil
}

// begin creates a file, and removes the oldest one beyond the limit.
func (l *log) begin(at int64) (err error) {
	old, err := logFiles(l.dir)
	if err != nil {
		return err
	}
	for len(old) >= segments {
		if err := os.Remove(old[0].path); err != nil {
			return err
		}
		old = old[1:]
	}
	l.wrote = 0
	l.file, err = os.OpenFile(filepath.Join(l.dir, fmt.Sprintf("log.%d", at)), os.O_WRONLY|os.O_CREATE|os.O_EXCL|
		unix.O_NOFOLLOW, 0o600)
	return err
}

func (l *log) endFile() {
	if l.file != nil {
		_ = l.file.Close() // what a late error loses cannot be known
		l.file = nil
	}
}

// logFile is a file of a log.
type logFile struct {
	path string
	at   int64 // position of the file's first record
}

// logFiles returns the files of a log in order.
func logFiles(dir string) (files []logFile, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if text, is := strings.CutPrefix(e.Name(), "log."); is {
			if at, err := strconv.ParseInt(text, 10, 64); err == nil {
				files = append(files, logFile{filepath.Join(dir, e.Name()), at})
			}
		}
	}
	slices.SortFunc(files, func(a, b logFile) int { return int(min(1, max(-1, a.at-b.at))) })
	return files, err
}

// ReadLog calls each with the records of a detached job's log from a position on, and returns the
// position behind the last one. It ignores an incomplete record at the end of a log that is being
// written.
func ReadLog(path string, from int64, each func(Record) error) (next int64, err error) {
	dir, err := trust.OpenDir(path, false)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	files, err := logFiles(entry(dir, "."))
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		file, err := os.Open(f.path)
		if os.IsNotExist(err) {
			continue // it became too old
		}
		if err != nil {
			return next, err
		}
		if f.at > next && next > 0 && f.at > from {
			err = each(Record{Rank: Own, FD: Gap, Lost: f.at - next})
		}
		next = f.at
		for r := NewRecordReader(io.LimitReader(file, 2*segmentSize)); err == nil; {
			var rec Record
			if rec, err = r.Next(); err == nil {
				if next >= from {
					err = each(rec)
				}
				next += int64(recordHead + len(rec.Data))
			}
		}
		file.Close()
		if err != io.EOF && err != io.ErrUnexpectedEOF {
			return next, fmt.Errorf("read %s: %w", f.path, err)
		}
	}
	return max(next, from), nil
}
