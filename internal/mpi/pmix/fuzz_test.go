package pmix

import (
	"bytes"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

// FuzzMessage reads messages as the agent does, by each of their parts.
func FuzzMessage(f *testing.F) {
	f.Add([]byte{9, 0, 0, 0, 'x', 1, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{13, 0, 0, 0, 'x', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 4, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, read := range []func(m *message) int{
			func(m *message) int { return len(m.names()) },
			func(m *message) int { return len(m.group()) },
			func(m *message) int { m.number(); return len(m.text()) },
		} {
			m, err := receive(bytes.NewReader(data))
			if err != nil {
				return
			}
			n := read(&m)
			check.That(t, n <= len(data), "%d parts in %d bytes", n, len(data))
		}
	})
}
