package frames

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
)

func TestStreamsOfACommand(t *testing.T) {
	var wire bytes.Buffer
	w := NewWriter(&wire)
	large := strings.Repeat("x", Max+1)
	for kind, text := range map[byte]string{Out: large, Err: "bad"} {
		must.Get(io.WriteString(w.Stream(kind), text))(t)
	}
	must.OK(t, w.SendJSON(Last, map[string]int{"code": 7}))
	var out, errs bytes.Buffer
	var end struct{ Code int }
	if err := Output(&wire, &out, &errs, &end); err != nil || out.String() != large || errs.String() != "bad" ||
		end.Code != 7 {
		t.Errorf("%d bytes, %q, %+v, %v", out.Len(), &errs, end, err)
	}
}

// input is a command's standard input, which may be closed.
type input struct {
	bytes.Buffer
	closed bool
}

func (i *input) Close() error {
	i.closed = true
	return nil
}

func TestInputEndsOnlyByItsEnd(t *testing.T) {
	var wire bytes.Buffer
	must.OK(t, NewWriter(&wire).Feed(strings.NewReader("abc")))
	whole := wire.String()
	for _, tc := range []struct {
		sent   string
		closed bool
		err    error
	}{{whole, true, io.EOF}, {whole[:len(whole)-5], false, io.EOF},
		{whole[:len(whole)-1], false, io.ErrUnexpectedEOF}} {
		var got input
		if err := Input(strings.NewReader(tc.sent), &got); got.String() != "abc" || got.closed != tc.closed ||
			!errors.Is(err, tc.err) {
			t.Errorf("of %q: %q, closed %v, %v", tc.sent, &got, got.closed, err)
		}
	}
	unread := errors.New("a disk that fails")
	wire.Reset()
	if err := NewWriter(&wire).Feed(io.MultiReader(strings.NewReader("abc"), failing{unread})); !errors.Is(err,
		unread) {
		t.Errorf("an input that fails: %v", err)
	}
	var got input
	if _ = Input(&wire, &got); got.closed {
		t.Error("an input that fails is taken for whole")
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestHostileFrames(t *testing.T) {
	for _, text := range []string{"", "\x02", "\x02\x00\x00\x00\x05ab", "\x02\xff\xff\xff\xff", "\x09\x00\x00\x00\x00",
		"\x06\x00\x00\x00\x01{"} {
		var end struct{}
		if err := Output(strings.NewReader(text), io.Discard, nil, &end); err == nil {
			t.Errorf("%q is output", text)
		}
		if err := Input(strings.NewReader(text), &input{}); err == nil {
			t.Errorf("%q is input", text)
		}
	}
}

// Frames of a kind that a peer repeats are passed on as they come, end the stream, or are refused:
// no reader keeps them. A new kind needs a row.
func TestEveryKindIsBounded(t *testing.T) {
	const passed = "passed on"
	const last = "ends the stream"
	const refused = "refused"
	rows := map[string][2]string{ // results of Output and Input
		"In":    {refused, passed},
		"Out":   {passed, refused},
		"Err":   {passed, refused},
		"Size":  {refused, refused},
		"Begin": {refused, refused},
		"Last":  {last, refused},
	}
	source := must.Get(os.ReadFile("command.go"))(t)
	kinds := regexp.MustCompile(`(?m)^\t(\w+) +byte = (\d)`).FindAllStringSubmatch(string(source), -1)
	if len(kinds) != len(rows) {
		t.Errorf("%d kinds, and %d rows", len(kinds), len(rows))
	}
	const many = 1000
	for _, kind := range kinds {
		for i, read := range []func(io.Reader) error{
			func(r io.Reader) error { return Output(r, io.Discard, io.Discard, &struct{}{}) },
			func(r io.Reader) error { return Input(r, &discarded{}) },
		} {
			frame := append([]byte{kind[2][0] - '0', 0, 0, 0, 2}, "{}"...)
			flood := bytes.NewReader(bytes.Repeat(frame, many))
			err := read(flood)
			got := refused
			switch {
			case flood.Len() == 0 && errors.Is(err, io.EOF):
				got = passed
			case flood.Len() == (many-1)*len(frame) && err == nil:
				got = last
			case flood.Len() != (many-1)*len(frame):
				t.Errorf("%s: %d bytes are left, %v", kind[1], flood.Len(), err)
			}
			if got != rows[kind[1]][i] {
				t.Errorf("%s is %s, want %q", kind[1], got, rows[kind[1]][i])
			}
		}
	}
}

// discarded is a standard input that keeps nothing.
type discarded struct{}

func (*discarded) Write(p []byte) (int, error) { return len(p), nil }
func (*discarded) Close() error                { return nil }
