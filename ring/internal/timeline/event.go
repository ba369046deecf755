package timeline

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// eventKind identifies the kind of an event.
type eventKind uint8

const (
	beginTop  eventKind = 1 + iota // ends all open phases of the row
	beginNest                      // within the open phase
	end
	ready
	cycle
)

// event is one event on its way from a caller to the writer.
type event struct {
	at     time.Duration // since the start
	kind   eventKind
	rank   int32 // rank of a ready event
	prefix string
	name   string // name of a phase, after prefix
	tensor string
	args   Args // tensor of an end event
}

// Args describe the tensor of an operation that has ended. Zero fields are omitted.
type Args struct {
	DType string
	Shape string // such as "[32, 16]"
	Count uint64 // elements
}

// start begins the JSON of an event that is not the first one. The caller adds the rest
// and the closing brace.
func start(b []byte, ph byte, at time.Duration, pid int) []byte {
	b = append(b, ",\n{\"ph\":\""...)
	b = append(b, ph)
	b = append(b, `","ts":`...)
	b = appendMicros(b, at)
	b = append(b, `,"pid":`...)
	b = strconv.AppendInt(b, int64(pid), 10)
	return append(b, `,"tid":1`...)
}

// appendMicros writes a time in microseconds, to the nanosecond.
func appendMicros(b []byte, at time.Duration) []byte {
	b = strconv.AppendInt(b, at.Microseconds(), 10)
	ns := at % time.Microsecond
	return append(b, '.', byte('0'+ns/100), byte('0'+ns/10%10), byte('0'+ns%10))
}

func appendName(b []byte, prefix, name string) []byte {
	b = append(b, `,"name":"`...)
	b = appendText(b, prefix)
	b = appendText(b, name)
	return append(b, '"')
}

// appendMeta writes a metadata event with one argument about pid.
func appendMeta(b []byte, pid int, name, arg, value string) []byte {
	b = append(b, `{"ph":"M","pid":`...)
	b = strconv.AppendInt(b, int64(pid), 10)
	b = append(b, `,"name":"`...)
	b = append(b, name...)
	b = append(b, `","args":{"`...)
	b = append(b, arg...)
	b = append(b, `":`...)
	b = append(b, value...)
	return append(b, "}}"...)
}

func appendArgs(b []byte, a Args) []byte {
	if a == (Args{}) {
		return b
	}
	b = append(b, `,"args":{`...)
	if a.DType != "" {
		b = append(b, `"dtype":`...)
		b = append(appendString(b, a.DType), ',')
	}
	if a.Shape != "" {
		b = append(b, `"shape":`...)
		b = append(appendString(b, a.Shape), ',')
	}
	if a.Count != 0 {
		b = append(b, `"count":`...)
		b = append(strconv.AppendUint(b, a.Count, 10), ',')
	}
	b[len(b)-1] = '}' // replaces the last comma
	return b
}

func appendString(b []byte, s string) []byte {
	return append(appendText(append(b, '"'), s), '"')
}

// appendText writes s as the inside of a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}
