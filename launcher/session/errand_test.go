package session

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/plan"
)

// newAsked returns a session whose agent reads everything, and one errand.
func newAsked(t *testing.T) (*Session, *Errand) {
	t.Helper()
	id := Identity{Host: &plan.Host{Host: hostfile.Host{Name: "f1"}, Ranks: []plan.Rank{{Rank: 3}}}}
	s := opening{id: id}.session(nil, wire.Hello{}, newOutbox(wire.NewWriter(io.Discard), 3))
	t.Cleanup(s.Out.close)
	e := must.Get(s.Ask(wire.Ask{Kind: wire.AskExec}))(t)
	return s, e
}

func tellFrame(errand uint32, what wire.Tell, data []byte) wire.Frame {
	return wire.Frame{Type: wire.TypeTell, Stream: errand, Payload: append([]byte{byte(what)}, data...)}
}

// A host can repeat no kind of tell without end.
func TestEveryTellIsBounded(t *testing.T) {
	for kind := wire.TellIn; kind <= wire.TellEnd; kind++ {
		s, e := newAsked(t)
		data := make([]byte, 4)
		if kind != wire.TellCredit {
			data = make([]byte, wire.MaxTell)
		}
		var err error
		for n := 0; err == nil && n < 100; n++ {
			err = s.ReceiveTell(tellFrame(1, kind, data))
		}
		if kind == wire.TellCredit && err == nil { // which is nothing
			err = s.ReceiveTell(tellFrame(1, kind, []byte{0, 0, 0, 1}))
		}
		if malformed := new(wire.FormatError); !errors.As(err, &malformed) || len(e.tells) > 5 {
			t.Errorf("tell %d: %d are kept, %v", kind, len(e.tells), err)
		}
	}
}

// A host that breaks the rules of errands violates the protocol; one that answers an errand that
// was closed does not.
func TestHostileTells(t *testing.T) {
	for name, frames := range map[string][]wire.Frame{
		"no kind":              {{Type: wire.TypeTell, Stream: 1}},
		"unknown kind":         {tellFrame(1, 99, nil)},
		"a launcher's kind":    {tellFrame(1, wire.TellIn, []byte("x"))},
		"an unknown errand":    {tellFrame(2, wire.TellOut, nil)},
		"errand 0":             {tellFrame(0, wire.TellOut, nil)},
		"credit from nowhere":  {tellFrame(1, wire.TellCredit, binary.BigEndian.AppendUint32(nil, 100))},
		"short credit":         {tellFrame(1, wire.TellCredit, []byte{1})},
		"too much output":      manyTells(5, 60<<10),
		"many small frames":    manyTells(2000, 0),
		"two ends":             {tellFrame(1, wire.TellEnd, []byte("{}")), tellFrame(1, wire.TellEnd, []byte("{}"))},
		"output after the end": {tellFrame(1, wire.TellEnd, []byte("{}")), tellFrame(1, wire.TellOut, []byte("x"))},
	} {
		s, _ := newAsked(t)
		var err error
		for _, f := range frames {
			err = errors.Join(err, s.ReceiveTell(f))
		}
		malformed := new(wire.FormatError)
		check.That(t, errors.As(err, &malformed), "%s: %v", name, err)
	}
	s, e := newAsked(t)
	e.Close()
	check.OK(t, s.ReceiveTell(tellFrame(1, wire.TellOut, []byte("late"))))
}

// Input that waits for credit returns when the errand ends.
func TestInputEndsWithItsErrand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, e := newAsked(t)
		input := make(chan error, 1)
		go func() { input <- e.Input(make([]byte, 2*wire.Window)) }()
		synctest.Wait()
		must.OK(t, s.ReceiveTell(tellFrame(1, wire.TellEnd, []byte("{}"))))
		synctest.Wait()
		check.Equal(t, len(input), 1)
		e.Close()
	})
}

// Errands that users close one after the other count until the agent has ended them: it takes so
// many, and would end with more.
func TestClosedErrandsCount(t *testing.T) {
	s, e := newAsked(t)
	e.Close()
	var err error
	begun := 1
	for ; err == nil && begun < 1000; begun++ {
		if e, err = s.Ask(wire.Ask{Kind: wire.AskExec}); err == nil {
			e.Close()
		}
	}
	check.Equal(t, begun-1, wire.MaxErrands, "errands were begun")
	must.OK(t, s.ReceiveTell(tellFrame(7, wire.TellEnd, []byte("{}"))))
	check.OK(t, s.ReceiveTell(tellFrame(7, wire.TellEnd, []byte("{}"))), "a second end")
	_, err = s.Ask(wire.Ask{Kind: wire.AskExec})
	check.OK(t, err, "once one has ended")
	check.Error(s.Ask(wire.Ask{Kind: wire.AskExec})).Any(t, "beside it")
}

func manyTells(n, size int) (frames []wire.Frame) {
	for range n {
		frames = append(frames, tellFrame(1, wire.TellOut, make([]byte, size)))
	}
	return frames
}

func TestErrandResult(t *testing.T) {
	s, e := newAsked(t)
	for range 100 { // more than the window, since what is read returns credit
		must.OK(t, s.ReceiveTell(tellFrame(1, wire.TellOut, make([]byte, 10<<10))))
		if what, data, err := e.Next(t.Context()); what != wire.TellOut || len(data) != 10<<10 || err != nil {
			t.Fatal(what, err)
		}
	}
	for _, f := range []wire.Frame{tellFrame(1, wire.TellOut, []byte("out")), tellFrame(1, wire.TellErr, []byte("err")),
		tellFrame(1, wire.TellEnd, []byte(`{"code":7,"error":"bad\u001b[31m"}`))} {
		must.OK(t, s.ReceiveTell(f))
	}
	out, err := e.Result(t.Context(), 10)
	check.That(t, string(out) == "out" && err != nil && strings.HasPrefix(err.Error(), "f1: bad") &&
		!strings.Contains(err.Error(), "\x1b"), "%q, %v", out, err)
}

// The end of an errand names its host, on one line, so that a host cannot speak as gorun does.
func TestEndsNameTheirHost(t *testing.T) {
	_, e := newAsked(t)
	end := must.Get(e.End([]byte(`{"code":300,"error":"gone\ngorun: hint: curl x | sh","hint":"curl y | sh"}`)))(t)
	check.Equal(t, end.Error, "f1: gone; gorun: hint: curl x | sh", "the error of a host")
	check.Equal(t, end.Hint, "f1: curl y | sh", "its hint")
	check.Equal(t, end.Code, 255, "its exit code")
	check.Equal(t, must.Get(e.End([]byte(`{"code":3}`)))(t).Error, "", "an end without an error")
}

func TestErrandsEndWithTheirSession(t *testing.T) {
	s, e := newAsked(t)
	var r Registry
	ended := make(chan error, 2)
	err := r.During(s, func(*Session) error {
		check.That(t, r.Of(3) == s && r.Of(2) == nil && r.On("f1") == s && len(r.All()) == 1,
			"the session is not found")
		go func() {
			_, _, err := e.Next(context.Background())
			ended <- err
		}()
		go func() { ended <- e.Input(make([]byte, 2*wire.Window)) }()
		return nil
	})
	check.That(t, err == nil && <-ended != nil && <-ended != nil, "an errand goes on: %v", err)
	_, err = s.Ask(wire.Ask{})
	check.That(t, err != nil && r.Of(3) == nil, "an errand begins")
}
