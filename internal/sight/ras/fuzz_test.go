package ras

import (
	"bytes"
	"io"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

// answerer reads what a service says, whatever is asked.
type answerer struct {
	io.Reader
	io.Writer
}

func FuzzAsk(f *testing.F) {
	f.Add([]byte("SERVER PROTOCOL 2\nOK\nOK\n{\"communicators\":[{\"ranks\":[{\"rank\":-1}]}]}"))
	f.Add([]byte("SERVER PROTOCOL 2\nOK\nERROR\nErrors\n======\nx\n\nWarnings\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Ask(answerer{bytes.NewReader(data), io.Discard})
		if err != nil {
			return
		}
		check.That(t, len(s.Lines) <= maxLines && len(s.Comms) <= maxComms && len(s.Version) <= maxText,
			"%d lines, %d communicators", len(s.Lines), len(s.Comms))
	})
}
