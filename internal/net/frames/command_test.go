package frames

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestStreamsOfACommand(t *testing.T) {
	var wire bytes.Buffer
	w := NewWriter(&wire)
	large := strings.Repeat("x", Max+1)
	for kind, text := range map[byte]string{Out: large, Err: "bad"} {
		if _, err := io.WriteString(w.Stream(kind), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.SendJSON(Last, map[string]int{"code": 7}); err != nil {
		t.Fatal(err)
	}
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
	if err := NewWriter(&wire).Feed(strings.NewReader("abc")); err != nil {
		t.Fatal(err)
	}
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
