package output

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/gorun/gorun/internal/prose"
)

// maxLine is the longest line that is held until it is complete. A longer line is emitted in
// pieces, as is one that stays incomplete for a while.
const maxLine = 64 << 10

// sparePartial bounds the memory that a stream keeps for its next unfinished line. A host has tens
// of thousands of streams during a job, of ranks that it spawns.
const sparePartial = 1 << 10

// tailSize is how much of a rank's stderr is kept to explain its end.
const tailSize = 8 << 10

// lineBuffer holds one stream's unfinished line.
type lineBuffer struct {
	partial []byte
	long    int // bytes of the line that were emitted because it is too long
}

// add takes the next bytes of the stream and calls emit with each complete line,
// including its end (\n, \r or \r\n), and with pieces of lines that are too long. A
// \r at the end of data is held back, because its \n may follow. The slice passed to
// emit is valid only during the call.
func (l *lineBuffer) add(data []byte, emit func(line []byte)) {
	if n := len(l.partial); n > 0 && l.partial[n-1] == '\r' && len(data) > 0 {
		if data[0] == '\n' {
			l.partial = append(l.partial, '\n')
			data = data[1:]
		}
		l.long = 0
		l.flush(emit)
	}
	newline := bytes.IndexByte(data, '\n') // index of the next one, or -1
	for len(data) > 0 {
		end := newline
		before := data
		if newline >= 0 {
			before = data[:newline]
		}
		if bar := bytes.IndexByte(before, '\r'); bar >= 0 {
			end = bar
		}
		if end < 0 || (data[end] == '\r' && end == len(data)-1) {
			l.hold(data, emit)
			return
		}
		l.long = 0
		next := end + 1
		if data[end] == '\r' && data[next] == '\n' {
			next++
		}
		if len(l.partial) > 0 {
			l.partial = append(l.partial, data[:next]...)
			l.flush(emit)
		} else {
			emit(data[:next])
		}
		data = data[next:]
		if newline >= 0 {
			if newline -= next; newline < 0 {
				newline = bytes.IndexByte(data, '\n')
			}
		}
	}
}

func (l *lineBuffer) hold(data []byte, emit func([]byte)) {
	l.partial = append(l.partial, data...)
	if len(l.partial) >= maxLine {
		l.long += len(l.partial)
		l.flush(emit)
	}
}

// split gives up keeping the line whole.
func (l *lineBuffer) split() {
	if l.long > 0 {
		l.long = maxWhole
	}
}

// flush emits the beginning of an incomplete line.
func (l *lineBuffer) flush(emit func([]byte)) {
	if len(l.partial) > 0 {
		emit(l.partial)
		l.partial = l.partial[:0]
	}
	if cap(l.partial) > sparePartial {
		l.partial = nil
	}
}

// plainLines returns the nonempty lines of text, without control bytes and colours. Of a progress
// bar it keeps only the last state.
func plainLines(text string) (lines []string) {
	colours := regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(colours.ReplaceAllString(line, ""), "\r \t")
		if line = prose.Plain(line[strings.LastIndexByte(line, '\r')+1:]); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
