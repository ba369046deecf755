package launcher

import "bytes"

// maxLine is the longest line that is kept together; what is longer comes in
// pieces, as does a line that is not ended for a while.
const maxLine = 64 << 10

// lineBuffer holds one stream's unfinished line.
type lineBuffer struct {
	partial []byte
	afterCR bool // the last byte passed on was \r: a \n that follows belongs to it
}

// add takes the next bytes of the stream and calls emit with each whole line,
// its end (\n, \r or \r\n) included, and with pieces of lines that grow too long.
// The slice given to emit is valid only during the call.
func (l *lineBuffer) add(data []byte, emit func(line []byte)) {
	for len(data) > 0 {
		if l.afterCR && data[0] == '\n' {
			l.afterCR = false
			emit(data[:1])
			data = data[1:]
			continue
		}
		l.afterCR = false
		end := bytes.IndexAny(data, "\n\r")
		if end < 0 {
			l.hold(data, emit)
			return
		}
		next := end + 1
		if data[end] == '\r' {
			if next < len(data) && data[next] == '\n' {
				next++
			} else {
				l.afterCR = true
			}
		}
		if len(l.partial) > 0 {
			l.partial = append(l.partial, data[:next]...)
			emit(l.partial)
			l.partial = l.partial[:0]
		} else {
			emit(data[:next])
		}
		data = data[next:]
	}
}

func (l *lineBuffer) hold(data []byte, emit func([]byte)) {
	l.partial = append(l.partial, data...)
	if len(l.partial) >= maxLine {
		l.flush(emit)
	}
}

// flush emits what there is of an unfinished line.
func (l *lineBuffer) flush(emit func([]byte)) {
	if len(l.partial) > 0 {
		emit(l.partial)
		l.partial = l.partial[:0]
	}
}
