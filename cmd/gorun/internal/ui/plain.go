package ui

import (
	"bytes"
	"encoding/json"
	"io"

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
