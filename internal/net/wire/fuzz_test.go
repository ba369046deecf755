package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/must"
)

// pieces returns its data in reads of 1 + cut bytes, for each cut in turn.
type pieces struct {
	data, cuts []byte
	next       int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := len(p.data)
	if len(p.cuts) > 0 {
		n = 1 + int(p.cuts[p.next%len(p.cuts)])
		p.next++
	}
	n = copy(b, p.data[:min(n, len(p.data))])
	p.data = p.data[n:]
	return n, nil
}

// story lists what a Reader returns for a stream, with the final error.
func story(r *Reader) (said []string) {
	for {
		f, err := r.Next()
		if err != nil {
			return append(said, err.Error())
		}
		said = append(said, fmt.Sprintf("%v %d %q", f.Type, f.Stream, f.Payload))
	}
}

// FuzzReader checks that any bytes are an error, or frames that encode to the same bytes again,
// however the stream is cut in pieces, and that a Reader holds no more memory than came.
func FuzzReader(f *testing.F) {
	var stream bytes.Buffer
	w := NewWriter(&stream)
	_ = w.Send(TypeOutput, 3, []byte("some output"))
	_ = w.SendHeartbeat(time.Second)
	_ = w.SendMessage(TypeExit, Exit{Rank: 1, Code: 3})
	_ = w.Send(TypeDone, 0, nil)
	f.Add(stream.Bytes(), []byte{0})
	f.Add(append(stream.Bytes(), 0, 0, 0, 9, 1, 0, 0, 1), []byte{11, 0, 3})
	f.Add([]byte{0, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0}, []byte{1})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0}, []byte{2})
	f.Fuzz(func(t *testing.T, data, cuts []byte) {
		r := NewReader(bytes.NewReader(data))
		var again bytes.Buffer
		w := NewWriter(&again)
		for {
			frame, err := r.Next()
			if err != nil {
				break
			}
			held := cap(frame.Payload)
			must.That(t, held <= 2*len(data)+MaxData, "%d bytes held for %d bytes of input", held, len(data))
			must.OK(t, w.Send(frame.Type, frame.Stream, frame.Payload), "a frame that was read cannot be sent")
			_, _ = frame.Credit()
			_, _ = frame.Heartbeat()
			_ = frame.Decode(&Job{})
		}
		must.That(t, bytes.HasPrefix(data, again.Bytes()), "frames changed on the way")
		whole := story(NewReader(bytes.NewReader(data)))
		cut := story(NewReader(&pieces{data: data, cuts: cuts}))
		must.That(t, slices.Equal(whole, cut), "whole %q\ncut   %q", whole, cut)
	})
}

// FuzzPreamble checks that the preamble is found exactly where it is, in one piece or many, and
// never without its nonce.
func FuzzPreamble(f *testing.F) {
	const nonce = "00112233445566778899aabbccddeeff"
	pre := string(Preamble(nonce))
	for _, noise := range []string{"", "Welcome to f1\nyou have mail\n", pre[:9], pre[:9] + pre[:12], "\x00\x00\x00",
		strings.Repeat("noise ", MaxNoise/8)} {
		f.Add([]byte(noise), []byte{0, 40}, []byte("\x00\x00frames"), true)
	}
	f.Add([]byte("\x00gorun-agent 00112233445566778899aabbccddeefe\n"), []byte{3, 0}, []byte("\x00gorun-agent"), true)
	f.Add(bytes.Repeat([]byte("\x00gorun-agent 0011"), 3000), []byte{16}, []byte{}, true)
	f.Add(Preamble("00112233445566778899aabbccddeefE"), []byte{200}, []byte{}, false)
	f.Add(bytes.Repeat([]byte{0}, MaxNoise+100), []byte{255}, []byte{}, false)
	f.Fuzz(func(t *testing.T, noise, cuts, after []byte, there bool) {
		if bytes.Contains(noise, Preamble(nonce)) || bytes.Contains(noise, StartMark(nonce)) {
			return
		}
		data := noise
		if there {
			data = slices.Concat(noise, Preamble(nonce), after)
		}
		from := &pieces{data: data, cuts: cuts}
		got, err := FindPreamble(from, nonce)
		var noisy *NoiseError
		switch {
		case err == nil && (!there || !bytes.Equal(got, noise) || len(from.data) != len(after)):
			t.Fatalf("found after %d bytes of %d, is there: %v, %d bytes left of %d", len(got), len(noise), there,
				len(from.data), len(after))
		case err != nil && !errors.As(err, &noisy):
			t.Fatalf("not a *NoiseError: %v", err)
		case err != nil && there && len(noise) <= MaxNoise:
			t.Fatalf("not found after %d bytes: %v", len(noise), err)
		case err != nil && !bytes.HasPrefix(data, noisy.Noise):
			t.Fatal("noise that never came")
		}
	})
}

// FuzzCredit checks that credit stays between nothing and the window, and that none is lost or
// created.
func FuzzCredit(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0xff, 0x81, 5})
	f.Add(bytes.Repeat([]byte{0x7f}, 50))
	f.Add([]byte{0x80, 0xff, 0x80})
	f.Fuzz(func(t *testing.T, moves []byte) {
		c := NewCredit()
		out := 0 // taken and not given back
		for _, m := range moves {
			n := int(m&0x7f) * int(m&0x7f) * 40
			if m&0x80 == 0 {
				if Window-out > FrameCost { // else it would wait
					got := c.Take(n)
					must.That(t, got >= 0 && got <= n && (got >= n || out+Cost(got) == Window),
						"%d taken of %d, with %d left", got, n, Window-out)
					out += Cost(got)
				}
			} else if err := c.Add(n); (err == nil) != (n <= out) {
				t.Fatalf("%d given back of %d: %v", n, out, err)
			} else if err == nil {
				out -= n
			}
			must.That(t, c.left == Window-out && c.left >= 0, "%d left, %d out", c.left, out)
		}
		c.Close()
		must.Equal(t, c.Take(1), 0, "taken from what is closed")
	})
}

// FuzzJob checks that a rank's environment, arguments and directory keep every byte.
func FuzzJob(f *testing.F) {
	f.Add([]byte("A=b"), []byte("prog"), []byte("\xff\xfe\n\"\\"), []byte("/a b"))
	f.Add([]byte{}, []byte{}, []byte{0x80}, []byte("\u2028</script>"))
	f.Fuzz(func(t *testing.T, env, arg0, arg1, dir []byte) {
		job := Job{
			ID:       "j",
			Key:      env,
			Env:      Texts{string(env), string(arg1)},
			Programs: []Program{{Argv: Texts{string(arg0), string(arg1)}, Env: Texts{string(env)}, Wdir: Text(dir)}},
			Ranks:    []Rank{{Rank: 1}},
		}
		var stream bytes.Buffer
		if err := NewWriter(&stream).SendMessage(TypeJob, job); err != nil {
			t.Skip(err) // too large
		}
		frame := must.Get(NewReader(&stream).Next())(t)
		var again Job
		err := frame.Decode(&again)
		must.That(t, err == nil && same(job, again), "%+v\nis %+v, %v", job, again, err)
	})
}

func same(a, b Job) bool {
	p := a.Programs[0]
	q := b.Programs[0]
	return bytes.Equal(a.Key, b.Key) && slices.Equal(a.Env, b.Env) && slices.Equal(p.Argv, q.Argv) &&
		slices.Equal(p.Env, q.Env) && p.Wdir == q.Wdir
}
