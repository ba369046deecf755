package keep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/internal/host/resident"
	"github.com/gorun/gorun/internal/net/frames"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// fakeConn is a connection whose commands run in this process.
type fakeConn struct {
	done chan struct{}
	once sync.Once
	mute atomic.Bool // it answers no ping
	run  func(ctx context.Context, argv []string, in io.Reader, out io.Writer) error
}

func (c *fakeConn) Run(ctx context.Context, argv []string, in io.Reader, out, _ io.Writer) error {
	return c.run(ctx, argv, in, out)
}
func (c *fakeConn) Put(ctx context.Context, name string, mode fs.FileMode, in io.Reader) error {
	return c.run(ctx, []string{name, mode.String()}, in, nil)
}
func (c *fakeConn) Ping(ctx context.Context) error {
	if !c.mute.Load() {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.done:
		return net.ErrClosed
	}
}
func (c *fakeConn) Done() <-chan struct{} { return c.done }
func (c *fakeConn) HostKey() []byte       { return []byte("key") }
func (c *fakeConn) LocalAddr() net.Addr   { return nil }
func (c *fakeConn) RemoteAddr() net.Addr  { return nil }
func (c *fakeConn) Close() error {
	c.once.Do(func() { close(c.done) })
	return nil
}

// running is a connection on which run takes the place of every command.
func running(run func(ctx context.Context, argv []string, in io.Reader, out io.Writer) error) *fakeConn {
	return &fakeConn{done: make(chan struct{}), run: run}
}

// reside starts a resident agent on a connection.
func reside(t *testing.T, conn Conn) *Resident {
	t.Helper()
	r := must.Get(StartResident(t.Context(), conn, "build", func(args ...string) []string { return args }))(t)
	t.Cleanup(r.Close)
	return r
}

// fakeHost is a host that hands out connections.
func fakeHost(dialed chan<- *fakeConn) Host {
	return Host{Name: "f1", Identity: "way", Dial: func(context.Context) (Conn, error) {
		c := &fakeConn{done: make(chan struct{})}
		dialed <- c
		return c, nil
	}}
}

func quiet(string, ...any) {}

func TestLostHostIsDialedAgain(t *testing.T) {
	dialed := make(chan *fakeConn, 8)
	k := New([]Host{fakeHost(dialed)}, quiet)
	failed := k.Connect(t.Context())
	must.That(t, failed == nil, "%v", failed)
	ctx, cancel := context.WithCancel(t.Context())
	var kept sync.WaitGroup
	kept.Go(func() { k.Keep(ctx) })
	h := k.hosts["way"]
	r, err := h.reach(t.Context())
	check.That(t, err == nil && string(r.HostKey) == "key" && r.Build == "", "%+v, %v", r, err)
	first := <-dialed
	first.Close()
	second := <-dialed
	second.mute.Store(true)
	for closed := false; !closed; { // by reach, or by the keeper's own ping
		_, _ = h.reach(t.Context())
		select {
		case <-second.done:
			closed = true
		case <-time.After(time.Millisecond):
		}
	}
	third := <-dialed
	cancel()
	kept.Wait()
	<-third.done
	check.Error(h.reach(t.Context())).Is(t, errLost, "after the end")
}

// A host that is lost whenever it is found is dialed seldom, and one that lasts soon again.
func TestHostThatIsLostAgainAndAgainWaits(t *testing.T) {
	for lasts, most := range map[time.Duration]int{0: 70, 2 * time.Minute: 35} {
		synctest.Test(t, func(t *testing.T) {
			dials := 0
			k := New([]Host{{Name: "f1", Identity: "way", Dial: func(context.Context) (Conn, error) {
				dials++
				c := &fakeConn{done: make(chan struct{})}
				time.AfterFunc(lasts, func() { c.Close() })
				return c, nil
			}}}, quiet)
			failed := k.Connect(t.Context())
			must.That(t, failed == nil, "%v", failed)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			k.Keep(ctx)
			check.That(t, dials <= most && dials > 25, "%d dials in an hour to a host that lasts for %v", dials, lasts)
		})
	}
}

func TestConnectionsHaveRoomForSessions(t *testing.T) {
	dialed := make(chan *fakeConn, 8)
	h := &host{Host: fakeHost(dialed), trace: quiet}
	check.Error(h.take(t.Context())).Is(t, errLost, "before it is connected")
	must.OK(t, h.connect(t.Context()))
	var releases []func()
	for range 2*sessionsPerConnection + 1 {
		_, release := must.GetTwo(h.take(t.Context()))(t)
		releases = append(releases, release)
	}
	check.That(t, len(dialed) == 3, "%d connections", len(dialed))
	for _, release := range releases {
		release()
	}
	check.That(t, len(h.lines) == 1 && h.lines[0].Conn == Conn(<-dialed), "%d connections are left", len(h.lines))
	for range 2 {
		<-(<-dialed).done
	}
	h.close()
}

// A further connection that was dialed while the first was lost, and found again, is closed at the
// end of its last session, whether the host is connected then or not.
func TestReplacedConnectionsAreClosed(t *testing.T) {
	for _, lost := range []bool{false, true} {
		dialed := make(chan *fakeConn, 8)
		h := &host{Host: fakeHost(dialed), trace: quiet}
		must.OK(t, h.connect(t.Context()))
		_, release := must.GetTwo(h.take(t.Context()))(t)
		must.OK(t, h.connect(t.Context())) // in its place
		if lost {
			h.close()
		}
		replaced := <-dialed
		release()
		select {
		case <-replaced.done:
		default:
			t.Errorf("a connection stays open, with the host lost: %v", lost)
		}
		h.close()
	}
}

func TestKeeperDrains(t *testing.T) {
	k := New(nil, quiet)
	end, ok := k.begin()
	active, _, changed := k.Use()
	must.That(t, ok && active == 1, "%v, %d requests", ok, active)
	k.Drain()
	<-changed
	if _, ok := k.begin(); ok {
		t.Error("a request begins after the end")
	}
	_, _, changed = k.Use()
	end()
	<-changed
	if active, idle, _ := k.Use(); active != 0 || time.Since(idle) < 0 {
		t.Errorf("%d requests", active)
	}
}

// serving is a connection whose only command is a resident agent that starts argv.
func serving(argv ...string) *fakeConn {
	return running(func(ctx context.Context, words []string, in io.Reader, out io.Writer) error {
		fmt.Fprint(out, "welcome\n") // of the login shell
		return resident.Serve(ctx, words[1], in, out, argv, nil)
	})
}

func TestResidentStartsAgents(t *testing.T) {
	r := reside(t, serving("/bin/sh", "-c", `read -r nonce || exit; echo $nonce; cat; echo bad >&2; exit 7`))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			end, out, errs, err := converse(r, fmt.Sprint("nonce", i), "abc")
			check.That(t, err == nil && out == fmt.Sprintf("nonce%d\nabc", i) && errs == "bad\n" &&
				end == (resident.End{Exited: true, Code: 7}),
				"%q, %q, %+v, %v", out, errs, end, err)
		})
	}
	all.Wait()
	check.That(t, r.Alive(), "the resident agent has ended")
}

// Agents end when the keeper does, and a command that is no resident agent is an error.
func TestResidentEndsWithItsKeeper(t *testing.T) {
	r := reside(t, serving("/bin/sh", "-c", "cat >/dev/null"))
	check.Error(converse(r, "nonce", "", r.Close)).Any(t, "an agent ends well without its keeper")
	broken := running(func(context.Context, []string, io.Reader, io.Writer) error { return errors.New("not found") })
	if _, err := StartResident(t.Context(), broken, "build", func(args ...string) []string {
		return args
	}); err == nil {
		t.Error("a command that fails is a resident agent")
	}
}

// converse runs an agent with a standard input, and calls begun when it has begun.
func converse(r *Resident, nonce, input string, begun ...func()) (end resident.End, stdout, stderr string, err error) {
	stream, err := r.open(context.Background())
	if err != nil {
		return end, "", "", err
	}
	defer stream.Close()
	to := frames.NewWriter(stream)
	if err := to.SendJSON(frames.Begin, resident.Start{Nonce: nonce}); err != nil {
		return end, "", "", err
	}
	for _, act := range begun {
		act()
	}
	if err := to.Feed(strings.NewReader(input)); err != nil {
		return end, "", "", err
	}
	var out, errs bytes.Buffer
	err = frames.Output(stream, &out, &errs, &end)
	return end, out.String(), errs.String(), err
}

// A host that sends something else than a resident agent, without end, has none. It holds up
// neither gorun up nor the end of the keeper, though a command in progress waits for what it
// writes.
func TestNoiseWithoutEndIsNoResident(t *testing.T) {
	noisy := running(func(_ context.Context, _ []string, _ io.Reader, out io.Writer) (err error) {
		for err == nil {
			_, err = out.Write(make([]byte, 32<<10))
		}
		return err
	})
	started := make(chan error, 1)
	go func() {
		_, err := StartResident(t.Context(), noisy, "build", func(args ...string) []string { return args })
		started <- err
	}()
	select {
	case err := <-started:
		check.Error(err).Is(t, wire.ErrTooNoisy)
	case <-time.After(2 * residentTimeout):
		t.Fatal("noise holds up the keeper")
	}
}

// A host that breaks the protocol of its resident agent, or sends without end, ends its own
// resident agent and fills no memory.
func TestHostileHostBreaksOnlyItsResident(t *testing.T) {
	garbage := running(func(ctx context.Context, words []string, in io.Reader, out io.Writer) error {
		_, _ = out.Write(append(wire.Preamble(words[1]), bytes.Repeat([]byte{0xff}, 1<<10)...))
		<-ctx.Done()
		return context.Cause(ctx)
	})
	r := reside(t, garbage)
	check.Error(converse(r, "nonce", "")).Any(t, "garbage is an agent")
	h := &host{Host: Host{Name: "f1"}, trace: quiet, lines: []*line{{Conn: garbage, resident: r}}}
	must.Until(t, "the end of garbage", func() bool { return !r.Alive() }) // its reader may be behind
	if reached, err := h.reach(t.Context()); err != nil || reached.Build != "" || h.resident() != nil {
		t.Errorf("after garbage: %+v, %v", reached, err)
	}
	r.Close()

	const bound = 64 << 20
	for _, size := range []int{0xffff, 1} { // the largest frames, and those that cost the most
		before := memory()
		var sent atomic.Int64
		flood := running(func(_ context.Context, words []string, in io.Reader, out io.Writer) error {
			_, err := out.Write(wire.Preamble(words[1]))
			var opened [8]byte // version 2, SYN, no data, the stream
			if err == nil {
				_, err = io.ReadFull(in, opened[:])
			}
			go func() { _, _ = io.Copy(io.Discard, in) }() // ends with in
			frame := append([]byte{2, 2, byte(size), byte(size >> 8)}, append(opened[4:], make([]byte, size)...)...)
			data := bytes.Repeat(frame, max(1, 0xffff/len(frame)))
			for err == nil {
				var n int
				n, err = out.Write(data)
				sent.Add(int64(n))
			}
			return err
		})
		r := reside(t, flood)
		stream := must.Get(r.open(t.Context()))(t)
		goal := bound/(128+size)*(8+size) - 1<<20 // bytes of frames that fit at least
		last := -1
		must.Until(t, "the end of what is taken", func() bool {
			was := last
			last = int(sent.Load())
			time.Sleep(50 * time.Millisecond)
			return last >= goal && last == was
		})
		held := memory() - before
		check.That(t, held <= bound+bound/4, "a host that sends %d bytes in frames of %d holds %d", last, size, held)
		all := must.Get(io.CopyN(io.Discard, stream, int64(2*bound/(1+100/size))))(t) // what waits makes room
		check.That(t, all > 0 && int(sent.Load()) > last, "%d bytes were read, and %d have come", all, sent.Load())
		r.Close()
	}
}

// memory returns the bytes that this process uses.
func memory() int {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// serve lets clients reach a keeper until the test ends, and returns where they find it.
func serve(t *testing.T, k *Keeper) []control.Keeper {
	t.Helper()
	place := control.Place{State: filepath.Join(t.TempDir(), "gorun"), Host: "here"}
	server := control.New(control.Options{Place: place, Job: control.Job{State: control.Keeping},
		Actions: control.Actions{Stream: k.Serve}})
	must.OK(t, server.Listen())
	t.Cleanup(func() { server.Close() })
	keepers := must.Get(place.Keepers())(t)
	must.That(t, len(keepers) == 1 && keepers[0].ID == server.ID(), "%+v", keepers)
	return keepers
}

// A client that goes in the middle ends its own command or file, and not the connection, which
// other jobs use.
func TestClientThatGoesEndsOnlyItsOwn(t *testing.T) {
	type read struct {
		argv []string
		text string
		err  error
		ctx  context.Context
	}
	reads := make(chan read, 1)
	conn := running(func(ctx context.Context, argv []string, in io.Reader, _ io.Writer) error {
		text, err := io.ReadAll(in)
		reads <- read{argv, string(text), err, ctx}
		return err
	})
	k := New([]Host{{Name: "f1", Identity: "way", Dial: func(context.Context) (Conn, error) {
		return conn, nil
	}}}, quiet)
	failed := k.Connect(t.Context())
	must.That(t, failed == nil, "%v", failed)
	keepers := serve(t, k)
	for path, want := range map[string]Request{
		PathRun: {Identity: "way", Argv: wire.Texts{"cat", "-rw-r-----"}},
		PathPut: {Identity: "way", Name: "cat", Mode: 0o640},
	} {
		for _, whole := range []bool{true, false} {
			client, answers, err := keepers[0].Upgrade(t.Context(), "/v1/"+path, want)
			must.OK(t, err)
			must.OK(t, frames.Write(client, frames.In, []byte("abc")))
			var end End
			if whole {
				err = frames.Write(client, frames.In, nil)
			} else {
				err = client.Close()
			}
			got := <-reads
			// What has arrived when the client hangs up may be dropped with the rest.
			arrived := got.text == "abc" || !whole && got.text == ""
			check.That(t, err == nil && arrived && (got.err == nil) == whole &&
				slices.Equal(got.argv, []string{"cat", "-rw-r-----"}),
				"%s, whole %v: %+v, %v", path, whole, got, err)
			if whole {
				err := frames.Output(answers, nil, nil, &end)
				check.That(t, err == nil && end.Exited && end.Error == "", "%s: %+v, %v", path, end, err)
				client.Close()
			} else if path == PathRun {
				<-got.ctx.Done()
			}
			if path == PathPut && got.ctx.Err() != nil {
				t.Errorf("the connection of a file would end: %v", got.ctx.Err())
			}
		}
	}
	for active, _, changed := k.Use(); active > 0; active, _, changed = k.Use() {
		<-changed
	}
	for identity, status := range map[string]int{"other": http.StatusNotFound, "way": http.StatusConflict} {
		var answer *control.AnswerError
		_, _, err := keepers[0].Upgrade(t.Context(), "/v1/"+PathAgent, Request{Identity: identity})
		check.That(t, errors.As(err, &answer) && answer.Status == status, "an agent on %s: %v", identity, err)
	}
	select {
	case <-conn.done:
		t.Error("the connection has ended")
	default:
	}
}

// deaf is a connection to a host that answers no command, and whose resident agent leaves no room
// for more of a stream after so many frames of smux.
func deaf(frames int) *fakeConn {
	return running(func(ctx context.Context, words []string, in io.Reader, out io.Writer) error {
		if words[0] != resident.Command {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		_, err := out.Write(wire.Preamble(words[1]))
		for seen := 1; err == nil; seen++ {
			var head [8]byte
			if _, err = io.ReadFull(in, head[:]); err == nil {
				_, err = io.CopyN(io.Discard, in, int64(head[2])|int64(head[3])<<8)
			}
			if err == nil && seen == frames { // version 2, UPD, 8 bytes, the stream; none taken, none wanted
				_, err = out.Write(append([]byte{2, 4, 8, 0}, append(head[4:], make([]byte, 8)...)...))
			}
		}
		return err
	})
}

// A host that takes no input, of an agent, a command or a file, keeps nothing of a client that has
// gone.
func TestClientThatGoesLeavesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		path   string
		frames int // that an agent takes: the opening of its stream, and its beginning
	}{
		"agent":               {PathAgent, 2},
		"agent without a job": {PathAgent, 1},
		"command":             {PathRun, 0},
		"file":                {PathPut, 0},
	} {
		t.Run(name, func(t *testing.T) {
			conn := deaf(tc.frames)
			k := New([]Host{{Name: "f1", Identity: "way",
				Dial:   func(context.Context) (Conn, error) { return conn, nil },
				Reside: func(context.Context, Conn) (*Resident, error) { return reside(t, conn), nil }}}, quiet)
			k.putTime = time.Millisecond
			failed := k.Connect(t.Context())
			must.That(t, failed == nil, "%v", failed)
			keepers := serve(t, k)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var sent atomic.Int64
			ended := make(chan bool)
			go func() { // sends more than fits on the way
				defer close(ended)
				client, _, err := keepers[0].Upgrade(ctx, "/v1/"+tc.path, Request{
					Identity: "way",
					Nonce:    "n",
					Argv:     wire.Texts{"x"},
					Name:     "x",
				})
				if err != nil {
					return
				}
				defer client.Close()
				defer context.AfterFunc(ctx, func() { client.Close() })()
				for frames.Write(client, frames.In, make([]byte, 1<<10)) == nil {
					sent.Add(1)
				}
			}()
			last := int64(-1)
			must.Until(t, "the end of what is taken", func() bool {
				was := last
				last = sent.Load()
				active, _, _ := k.Use()
				time.Sleep(50 * time.Millisecond)
				return active > 0 && last == was && (last > 0 || tc.frames == 1)
			})
			cancel()
			<-ended
			must.Until(t, "the end of the request", func() bool {
				active, _, _ := k.Use()
				return active == 0
			})
		})
	}
}
