package ui

import (
	"bytes"
	"encoding/json"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/gorun/gorun/internal/prose"
)

// Plain returns a writer of gorun's own text on w, which passes through [prose.Plain]. The output
// of ranks must not. Each Write takes whole characters.
func Plain(w io.Writer) io.Writer { return plainWriter{w} }

type plainWriter struct{ w io.Writer }

func (p plainWriter) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.w, prose.Plain(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Columns returns the width in characters of a terminal that w is or that [Plain] has wrapped; 0
// for other writers.
func Columns(w io.Writer) int {
	if p, ok := w.(plainWriter); ok {
		w = p.w
	}
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// WriteJSON writes v as one JSON document without control characters. indent is the indentation of
// nested values; "" writes one line.
func WriteJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(prose.PlainJSON(b.Bytes()))
	return err
}
