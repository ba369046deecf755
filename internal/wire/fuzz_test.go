package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// pieces hands out its data in pieces: of 1 + cut bytes, again and again.
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

// story is what a reader says of a stream, its end included.
func story(r io.Reader) (said []string) {
	frames := NewReader(r)
	for {
		f, err := frames.Next()
		if err != nil {
			return append(said, err.Error())
		}
		said = append(said, fmt.Sprintf("%v %d %q", f.Type, f.Stream, f.Payload))
	}
}

// FuzzSplits checks that frames do not depend on how the stream is cut in pieces.
func FuzzSplits(f *testing.F) {
	var stream bytes.Buffer
	w := NewWriter(&stream)
	_ = w.Send(TypeOutput, 3, []byte("some output"))
	_ = w.SendMessage(TypeExit, Exit{Rank: 1, Code: 3})
	_ = w.Send(TypeDone, 0, nil)
	f.Add(stream.Bytes(), []byte{0})
	f.Add(stream.Bytes(), []byte{11, 0, 3})
	f.Add(append(stream.Bytes(), 0, 0, 0, 9, 1, 0, 0, 1), []byte{1})
	f.Fuzz(func(t *testing.T, data, cuts []byte) {
		whole := story(bytes.NewReader(data))
		if cut := story(&pieces{data: data, cuts: cuts}); !reflect.DeepEqual(whole, cut) {
			t.Fatalf("whole %q\ncut   %q", whole, cut)
		}
	})
}

// FuzzNoise checks that the preamble is found in pieces as in one, and never without its nonce.
func FuzzNoise(f *testing.F) {
	const nonce = "00112233445566778899aabbccddeeff"
	f.Add([]byte("motd\n"), []byte{0}, true)
	f.Add([]byte("\x00gorun-agent 00112233445566778899aabbccddeefe\n"), []byte{3, 0}, true)
	f.Add(bytes.Repeat([]byte("\x00gorun-agent 0011"), 3000), []byte{16}, true)
	f.Add(Preamble("00112233445566778899aabbccddeefE"), []byte{200}, false)
	f.Add(bytes.Repeat([]byte{0}, MaxNoise+100), []byte{255}, false)
	f.Fuzz(func(t *testing.T, noise, cuts []byte, there bool) {
		if bytes.Contains(noise, Preamble(nonce)) {
			return
		}
		data := noise
		if there {
			data = append(bytes.Clone(noise), Preamble(nonce)...)
		}
		got, err := FindPreamble(&pieces{data: data, cuts: cuts}, nonce)
		var noisy *NoiseError
		switch {
		case err == nil && (!there || !bytes.Equal(got, noise)):
			t.Fatalf("found after %d bytes of %d, is there: %v", len(got), len(noise), there)
		case err != nil && !errors.As(err, &noisy):
			t.Fatalf("not a *NoiseError: %v", err)
		case err != nil && there && len(noise) <= MaxNoise:
			t.Fatalf("not found after %d bytes: %v", len(noise), err)
		case err != nil && !bytes.HasPrefix(data, noisy.Noise):
			t.Fatal("noise that never came")
		}
	})
}

// FuzzCredit checks that credit is never less than nothing, nor more than the window,
// and that none is lost or made up.
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
				if out < Window { // else it would wait
					got := c.Take(n)
					if got < 0 || got > n || (got < n && out+got != Window) {
						t.Fatalf("%d taken of %d, with %d left", got, n, Window-out)
					}
					out += got
				}
			} else if err := c.Add(n); (err == nil) != (n <= out) {
				t.Fatalf("%d given back of %d: %v", n, out, err)
			} else if err == nil {
				out -= n
			}
			if c.left != Window-out || c.left < 0 {
				t.Fatalf("%d left, %d out", c.left, out)
			}
		}
		c.Close()
		if got := c.Take(1); got != 0 {
			t.Fatalf("%d taken from what is closed", got)
		}
	})
}

// FuzzJob checks that what a user gives a rank comes through as it is, whatever bytes it
// has: environment, arguments and directory.
func FuzzJob(f *testing.F) {
	f.Add([]byte("A=b"), []byte("prog"), []byte("\xff\xfe\n\"\\"), []byte("/a b"))
	f.Add([]byte{}, []byte{}, []byte{0x80}, []byte("\u2028</script>"))
	f.Fuzz(func(t *testing.T, env, arg0, arg1, dir []byte) {
		job := Job{ID: "j", Key: env, Env: [][]byte{env, arg1}, Programs: []Program{{Argv: [][]byte{arg0, arg1}, Env: [][]byte{env}, Wdir: dir}},
			Ranks: []Rank{{Rank: 1}}}
		var stream bytes.Buffer
		if err := NewWriter(&stream).SendMessage(TypeJob, job); err != nil {
			t.Skip(err) // too large
		}
		frame, err := NewReader(&stream).Next()
		if err != nil {
			t.Fatal(err)
		}
		var again Job
		if err := frame.Decode(&again); err != nil || !same(job, again) {
			t.Fatalf("%+v\nis %+v, %v", job, again, err)
		}
	})
}

func same(a, b Job) bool {
	p, q := a.Programs[0], b.Programs[0]
	return bytes.Equal(a.Key, b.Key) && equal(a.Env, b.Env) && equal(p.Argv, q.Argv) && equal(p.Env, q.Env) && bytes.Equal(p.Wdir, q.Wdir)
}

func equal(a, b [][]byte) bool {
	return len(a) == len(b) && bytes.Equal(bytes.Join(a, []byte{0}), bytes.Join(b, []byte{0}))
}

// A length that is only claimed costs no memory.
func TestClaimedLengthCostsNothing(t *testing.T) {
	claim := string([]byte{0, 0xff, 0xff, 0xff, byte(TypeJob), 0, 0, 0, 0, 0, 0, 0}) + strings.Repeat("x", 1000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		if _, err := NewReader(strings.NewReader(claim)).Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 20*(16*1012+growStep+4096) {
		t.Errorf("%d bytes for 20 claims of 16 MiB", used)
	}
}
