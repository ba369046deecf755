package secure

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// noise returns n random bytes, the same each time.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(b)
	return b
}

// change alters bytes as an accident may: bits flip, bytes are lost, repeated or added, and
// blocks change places.
func change(random *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	at := random.IntN(len(b))
	n := 1 + random.IntN(min(64, len(b)-at))
	switch random.IntN(8) {
	case 0:
		return append(b[:at], b[at+n:]...)
	case 1:
		return append(b[:at+n:at+n], b[at:]...)
	case 2:
		for i := range b[at : at+n] {
			b[at+i] ^= byte(1 + random.IntN(255))
		}
	default:
		b[at] ^= 1 << random.IntN(8)
	}
	return b
}

// drain opens all received data.
func drain(layer io.Reader) (got []byte, err error) {
	b := make([]byte, 512)
	for {
		n, err := layer.Read(b)
		got = append(got, b[:n]...)
		if err != nil {
			return got, err
		}
	}
}

// An accidental change on a checked connection is detected: the receiver gets a prefix of
// the sent data. C11 of the fault matrix.
func TestChangedDataIsDetected(t *testing.T) {
	silent := 0
	found := 0
	flips := 20_000
	if os.Getenv("RING_FAULT_ROUNDS") != "" {
		flips = 1_000_000
	}
	random := rand.New(rand.NewPCG(11, 11))
	said := noise(700)
	for range flips {
		sender := newWire(nil)
		receiver := newWire(nil)
		sender.detached = true
		receiver.detached = true
		for rest := said; len(rest) > 0; { // several records
			n := min(len(rest), 1+random.IntN(300))
			must.Get(sender.Write(rest[:n]))(t)
			rest = rest[n:]
		}
		receiver.in = change(random, sender.out)
		receiver.end = len(receiver.in)
		got, err := drain(receiver)
		if !bytes.HasPrefix(said, got) {
			silent++
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			found++
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && bytes.Equal(got, said) &&
			!bytes.HasPrefix(receiver.in, sender.out) {
			silent++
		}
	}
	check.That(t, silent <= 0 && found >= flips/2, "%d of %d changes were taken, %d found", silent, flips, found)
}

// sealedPair is both ends of one TLS connection whose bytes the test carries.
func sealedPair(t testing.TB) (sender *session, out *wire, receiver *session, in *wire) {
	t.Helper()
	zero := newTestCredentials(t)
	one := newTestCredentials(t)
	ends := [2]*wire{}
	here, there := lab.TCPPair(t)
	ends[0] = newWire(here)
	ends[1] = newWire(there)
	done := make(chan error, 1)
	go func() {
		var err error
		receiver, err = one.handshake(ends[1], zero.Fingerprint(), false)
		done <- err
	}()
	sender, err := zero.handshake(ends[0], one.Fingerprint(), true)
	must.OK(t, errors.Join(err, <-done))
	ends[0].detached = true
	ends[1].detached = true
	return sender, ends[0], receiver, ends[1]
}

func newTestCredentials(t testing.TB) *Credentials {
	t.Helper()
	return must.Get(NewCredentials(NewSeed()))(t)
}

// forge changes the data on its way from out to in and repairs the checksums, which detect
// accidents only.
func forge(t testing.TB, out, in *wire, touch func([]byte) []byte) (sent, touched []byte) {
	t.Helper()
	sum := out.sent
	came := in.came
	reader := newWire(nil)
	writer := newWire(nil)
	reader.detached = true
	writer.detached = true
	reader.in = out.out
	reader.end = len(out.out)
	reader.came = came
	sent, err := drain(reader)
	must.That(t, errors.Is(err, os.ErrDeadlineExceeded) && reader.came == sum, "%v", err)
	touched = touch(sent)
	writer.sent = came
	must.Get(writer.Write(touched))(t)
	in.begin = 0
	in.end = len(writer.out)
	in.in = writer.out
	return sent, touched
}

// A forged change on an encrypted connection is detected, and no data is visible. S3 of the
// fault matrix.
func TestEncryptedDataIsHiddenAndChangesAreDetected(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	said := bytes.Repeat([]byte("canary37"), 90)
	for range 300 {
		sender, out, receiver, in := sealedPair(t)
		must.Get(sender.Write(said[:400]))(t)
		must.Get(sender.Write(said[400:]))(t)
		must.That(t, !bytes.Contains(out.out, said[:8]), "it is in the clear")
		sent, touched := forge(t, out, in, func(b []byte) []byte { return change(random, b) })
		got, err := drain(receiver)
		must.That(t, bytes.HasPrefix(said, got), "%d bytes came of %d, not those that were sent", len(got), len(said))
		must.That(t, len(got) != len(said) || !errors.Is(err, os.ErrDeadlineExceeded) || bytes.HasPrefix(touched, sent),
			"a change was not noticed: %v", err)
		for _, w := range []*wire{in, out} {
			w.TCPConn.Close()
		}
	}
}

// couple returns two ranks that meet, of which distrust, if not -1, expects another certificate of
// the other than the published one.
func couple(t *testing.T, guards [2]Guard, distrust int) (zero, one *Endpoint) {
	t.Helper()
	zero = open(t, guards[0], 1)
	one = open(t, guards[1], 1)
	for rank, e := range []*Endpoint{zero, one} {
		peers := []Peer{{Addrs: zero.Addrs(), Cert: zero.Cert()}, {Addrs: one.Addrs(), Cert: one.Cert()}}
		if rank == distrust {
			peers[1-rank].Cert[5] ^= 1
		}
		must.OK(t, e.Meet(identity(rank, 2), peers))
	}
	return zero, one
}

// The handshake fails between ranks with different guards, on either side, and with a
// certificate other than the published one. S3 and S24 of the fault matrix.
func TestGuardsMustAgree(t *testing.T) {
	for mine := Plain; mine <= Encrypted; mine++ {
		for theirs := Plain; theirs <= Encrypted; theirs++ {
			for distrust := -1; distrust < 2; distrust++ {
				zero, one := couple(t, [2]Guard{mine, theirs}, distrust)
				conn, err := zero.dialer.once(testContext(t), 1, 0, one.Addrs()[0])
				good := mine == theirs && (distrust < 0 || mine != Encrypted)
				check.That(t, good == (err == nil) && (err == nil || errors.Is(err, ErrRefused)),
					"%v and %v, rank %d has another certificate: %v", mine, theirs, distrust, err)
				if err == nil {
					conn.Close()
				}
				zero.Close()
				one.Close()
			}
		}
	}
}

// A note that the kernel does not accept at once precedes the next flow. Peek does not
// consume it, as on a bare socket.
func TestGuardsPeekAndNote(t *testing.T) {
	for _, guard := range []Guard{Checked, Encrypted} {
		t.Run(fmt.Sprint(guard), func(t *testing.T) {
			zero, one := couple(t, [2]Guard{guard, guard}, -1)
			conns := must.Get(zero.Dial(testContext(t), 1))(t)
			to := conns[0]
			from := awaitConns(t, one, 0)[0]
			defer to.Close()
			text := noise(64)
			if n, err := to.Note(text); n != len(text) || err != nil {
				t.Fatal(n, err)
			}
			got := make([]byte, len(text))
			for range 3 {
				for ctx := testContext(t); ctx.Err() == nil; time.Sleep(time.Millisecond) {
					if n, _ := from.Peek(got); n == len(got) {
						break
					}
				}
				must.That(t, bytes.Equal(got, text), "peeked at %x", got)
				clear(got)
			}
			if n, err := from.Recv(got[:40]); n != 40 || err != nil || !bytes.Equal(got[:40], text[:40]) {
				t.Errorf("received %d bytes, %v", n, err)
			}
			if n, err := from.Recv(got[40:]); n != 24 || err != nil || !bytes.Equal(got, text) {
				t.Errorf("received %d more bytes, %v", n, err)
			}
		})
	}
}
