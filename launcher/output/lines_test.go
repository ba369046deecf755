package output

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestLines(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	tests := []struct {
		name   string
		chunks []string
		want   []string // after the last chunk, flushed
	}{
		{"a line", []string{"a\n"}, []string{"a\n"}},
		{"lines of one chunk", []string{"a\nb\n\nc"}, []string{"a\n", "b\n", "\n", "c"}},
		{"a line in pieces", []string{"a", "b", "", "c\nd", "\n"}, []string{"abc\n", "d\n"}},
		{"a progress bar", []string{"1%\r2%\r", "3%\r"}, []string{"1%\r", "2%\r", "3%\r"}},
		{"\\r\\n is one end", []string{"a\r\nb\r\n"}, []string{"a\r\n", "b\r\n"}},
		{"\\r\\n across chunks", []string{"a\r", "\nb"}, []string{"a\r\n", "b"}},
		{"\\r, then a line of its own", []string{"a\r", "b\n"}, []string{"a\r", "b\n"}},
		{"\\n\\r are two ends", []string{"a\n\rb\n"}, []string{"a\n", "\r", "b\n"}},
		{"\\r\\r\\n", []string{"a\r\r\n"}, []string{"a\r", "\r\n"}},
		{"no bytes but NUL", []string{"\x00\x00", "\n"}, []string{"\x00\x00\n"}},
		{"not text", []string{"\xff\xfe\n\x80"}, []string{"\xff\xfe\n", "\x80"}},
		{"a line that is too long", []string{long, "y\n"}, []string{long, "y\n"}},
		{"a long line that ends in time", []string{long[1:], "y\n"}, []string{long[1:] + "y\n"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var l lineBuffer
			var got []string
			emit := func(line []byte) { got = append(got, string(line)) }
			for _, c := range tc.chunks {
				l.add([]byte(c), emit)
			}
			l.flush(emit)
			l.flush(emit)
			check.That(t, slices.Equal(got, tc.want), "got %.60q, want %.60q", got, tc.want)
		})
	}
}

// FuzzLines checks, for any bytes in any chunks, that no byte is lost or made
// up, that a line end is never inside a piece, and that memory is bounded.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\nc\rd\n\r\n"), []byte{1, 2, 3}, uint16(0))
	f.Add([]byte("\r\n\r\n"), []byte{1}, uint16(2))
	f.Add([]byte("0123456789abcdef"), []byte{255, 254, 0, 253}, uint16(maxLine/8)) // two long lines in one
	f.Fuzz(func(t *testing.T, data, cuts []byte, repeat uint16) {
		if n := int(repeat); n > 1 && n*len(data) < 3*maxLine {
			data = bytes.Repeat(data, n)
		}
		var l lineBuffer
		var got []byte
		rest := data
		biggest := 0
		check := func(piece []byte) {
			must.That(t, len(piece) != 0 && len(piece) < maxLine+biggest,
				"a piece of %d bytes from chunks of at most %d", len(piece), biggest)
			body := piece
			for _, end := range []string{"\r\n", "\n", "\r"} {
				if trimmed, ok := bytes.CutSuffix(piece, []byte(end)); ok {
					body = trimmed
					break
				}
			}
			must.That(t, !bytes.ContainsAny(body, "\r\n"), "a line end inside %q", piece)
			got = append(got, piece...)
		}
		for i := 0; len(rest) > 0; i++ {
			n := len(rest)
			if len(cuts) > 0 {
				n = min(n, 1+int(cuts[i%len(cuts)])*31)
			}
			biggest = max(biggest, n)
			// The next chunk overwrites this one's memory, as a reader's buffer does.
			chunk := bytes.Clone(rest[:n])
			l.add(chunk, check)
			clear(chunk)
			rest = rest[n:]
			if len(l.partial) >= maxLine || cap(l.partial) > 4*(maxLine+biggest) {
				t.Fatalf("%d bytes held in %d", len(l.partial), cap(l.partial))
			}
		}
		l.flush(check)
		must.That(t, bytes.Equal(got, data), "got %q, want %q", got, data)
	})
}
