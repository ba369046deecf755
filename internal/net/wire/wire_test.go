package wire

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestFramesComeBackAsSent(t *testing.T) {
	sent := []Frame{
		{TypeHeartbeat, 0, bytes.Repeat([]byte{7}, 8)},
		{TypeOutput, OutputStream(5, 2), []byte("hello\n")},
		{TypeStdin, 0, nil},
		{TypeOutput, 1, bytes.Repeat([]byte{0xff}, MaxData)},
		{TypeJob, 0, bytes.Repeat([]byte("x"), 3*MaxData+1)},
		{TypeDone, 0, nil},
	}
	var stream bytes.Buffer
	w := NewWriter(&stream)
	for _, f := range sent {
		must.OK(t, w.Send(f.Type, f.Stream, f.Payload))
	}
	r := NewReader(&stream)
	for i, want := range sent {
		got, err := r.Next()
		must.That(t, err == nil && got.Type == want.Type && got.Stream == want.Stream &&
			bytes.Equal(got.Payload, want.Payload), "frame %d: got %s/%d with %d bytes, want %s/%d with %d: %v", i,
			got.Type, got.Stream, len(got.Payload), want.Type, want.Stream, len(want.Payload), err)
	}
	_, err := r.Next()
	check.That(t, err == io.EOF, "after the last frame: %v, want EOF", err)
}

// carried returns message as a frame that was sent and read.
func carried(t *testing.T, typ Type, message any) Frame {
	t.Helper()
	var stream bytes.Buffer
	must.OK(t, NewWriter(&stream).SendMessage(typ, message))
	return must.Get(NewReader(&stream).Next())(t)
}

func TestMessagesKeepEveryByte(t *testing.T) {
	raw := ""
	for b := 1; b < 256; b++ {
		raw += string([]byte{byte(b)})
	}
	want := Job{
		ID:       "j",
		Programs: []Program{{Argv: Texts{"prog", raw, ""}, Wdir: Text(raw)}},
		Env:      Texts{"A=" + raw},
		Stdin:    []int{3},
	}
	var got Job
	f := carried(t, TypeJob, want)
	check.That(t, bytes.Contains(f.Payload, []byte(`"Argv":["cHJvZw==","AQID`)), "sent %s", f.Payload)
	must.OK(t, f.Decode(&got))
	check.That(t, reflect.DeepEqual(got, want), "got %+v", got)
}

// TestHelloHoldsEveryAddress checks that the longest hello fits in a frame.
func TestHelloHoldsEveryAddress(t *testing.T) {
	want := Hello{
		Protocol: Protocol,
		Build:    strings.Repeat("b", 128),
		PID:      1 << 22,
		Hostname: strings.Repeat("h", 64),
		Arch:     "loong64",
		Reached:  "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
		Caller:   "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
		Boot:     strings.Repeat("0", 36),
	}
	for i := range MaxAddresses {
		ip := netip.AddrFrom16([16]byte{0x20, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			0xff, 0xff, byte(i)})
		want.Addresses = append(want.Addresses, Address{
			Interface: strings.Repeat("<", 15),
			Prefix:    netip.PrefixFrom(ip, 128),
			Up:        true,
			Loopback:  true,
			Speed:     1 << 30,
		})
	}
	want.Addresses[7] = Address{Interface: "ib0"}
	f := carried(t, TypeHello, want)
	err := Handle(f, func(got Hello) error {
		check.That(t, reflect.DeepEqual(got, want), "got %+v", got)
		return io.ErrNoProgress
	})
	check.That(t, err == io.ErrNoProgress, "%v, want the handler's error", err)
	f.Payload = []byte(`{"Addresses":[{"Prefix":"10.0.0.1"}]}`)
	var bad *FormatError
	check.Error(Handle(f, func(Hello) error { t.Error("handled"); return nil })).As(t, &bad,
		"an address without its subnet")
}

func TestMalformedFramesAreRefused(t *testing.T) {
	header := func(size uint32, typ, flags byte) []byte {
		return []byte{byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size), typ, flags, 0, 0, 0, 0, 0, 0}
	}
	for name, data := range map[string][]byte{
		"unknown type":     header(0, byte(typeEnd), 0),
		"type zero":        header(0, 0, 0),
		"flags":            header(0, byte(TypeDone), 1),
		"bulk too long":    header(MaxData+1, byte(TypeOutput), 0),
		"control too long": header(MaxControl+1, byte(TypeJob), 0),
		"hello too long":   header(MaxHello+1, byte(TypeHello), 0),
	} {
		var bad *FormatError
		_, err := NewReader(bytes.NewReader(data)).Next()
		check.That(t, errors.As(err, &bad), "%s: %v, want a FormatError", name, err)
	}
	_, err := NewReader(bytes.NewReader(header(8, byte(TypeHeartbeat), 0))).Next()
	check.Equal(t, err, io.ErrUnexpectedEOF, "cut frame")
	var bad *FormatError
	check.Error(NewWriter(io.Discard).Send(TypeOutput, 0, make([]byte, MaxData+1))).As(t, &bad, "oversized send")
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	payload := make([]byte, MaxData)
	var stream bytes.Buffer
	w := NewWriter(&stream)
	r := NewReader(&stream)
	turn := func() {
		must.OK(t, w.Send(TypeOutput, 3, payload))
		must.Get(r.Next())(t)
	}
	turn()
	if n := testing.AllocsPerRun(100, turn); n > 0 {
		t.Errorf("%v allocations per output frame", n)
	}
}

func TestMissingPreambleShowsWhatCame(t *testing.T) {
	var noisy *NoiseError
	_, err := FindPreamble(strings.NewReader("sh: 1: gorun: not found\n"), "n")
	check.That(t, errors.As(err, &noisy) && errors.Is(err, io.EOF) && strings.Contains(err.Error(), "not found"),
		"short: %v", err)
	_, err = FindPreamble(strings.NewReader("motd\n"+string(StartMark("n"))+"usage\n"), "n")
	check.That(t, errors.As(err, &noisy) && noisy.Started && string(noisy.Noise) == "motd\nusage\n",
		"after the start mark: %v", err)
	for _, nonce := range []string{"", "one", "onetw", "onetwo ", "ONETWO", "two"} {
		check.Error(FindPreamble(bytes.NewReader(Preamble(nonce)), "onetwo")).As(t, &noisy, "the preamble of", nonce,
			"was accepted")
	}
	endless := io.MultiReader(strings.NewReader(strings.Repeat("y\n", MaxNoise)), strings.NewReader("more"))
	check.Error(FindPreamble(endless, "n")).Is(t, ErrTooNoisy, "endless")
}

func TestCreditBlocksAndReturns(t *testing.T) {
	c := NewCredit()
	if n := c.Take(Window + 1); n != Window-FrameCost {
		t.Fatalf("took %d, want the whole window", n)
	}
	took := make(chan int)
	go func() { took <- c.Take(10) }()
	select {
	case n := <-took:
		t.Fatalf("took %d bytes without credit", n)
	case <-time.After(10 * time.Millisecond):
	}
	for _, n := range []int{FrameCost, 4} {
		must.OK(t, c.Add(n))
	}
	if n := <-took; n != 4 {
		t.Errorf("took %d, want the 4 returned", n)
	}
	check.That(t, c.Add(Window+1) != nil, "credit nobody took was accepted")
	c.Close()
	if n := c.Take(1); n != 0 {
		t.Errorf("took %d after Close", n)
	}
}

func TestStreamNumbers(t *testing.T) {
	for rank := range 5 {
		for _, fd := range []int{Stdout, Stderr, Result} {
			r, f := RankFD(OutputStream(rank, fd))
			check.That(t, r == rank && f == fd, "rank %d fd %d came back as rank %d fd %d", rank, fd, r, f)
		}
	}
}
