package relay

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/net/frames"
	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// world is a launcher with one file, and hosts.
type world struct {
	*testing.T
	src   *Source
	data  []byte
	place wire.Place
	homes []string
	limit time.Duration // how long a peer may starve a host, and a host take nothing; 0: as usual

	mu    sync.Mutex
	lines []string // traces and warnings
}

func newWorld(t *testing.T, hosts, size int) *world {
	w := &world{T: t, data: make([]byte, size), place: wire.Place{
		Dir:   []byte("in/it"),
		Name:  []byte("file"),
		Mode:  0o640,
		Mtime: 1e18,
	}}
	rand.Read(w.data)
	name := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(name, w.data, 0o600))
	w.src = must.Get(Open(name))(t)
	t.Cleanup(func() { w.src.Close() })
	for range hosts {
		w.homes = append(w.homes, t.TempDir())
	}
	return w
}

func (w *world) note(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, line)
}

func (w *world) group(hosts int) *Group {
	g := NewGroup(w.src, w.place, hosts, func(format string, args ...any) {
		w.note(fmt.Sprintf(format, args...))
	}, w.note)
	g.idle = cmp.Or(10*w.limit, g.idle)
	return g
}

// said reports whether a line was traced.
func (w *world) said(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(strings.Join(w.lines, "\n"), text)
}

// remote is a host whose agent runs in this process.
type remote struct {
	name    string
	queue   chan wire.Frame
	out     *wire.Writer // to the agent
	in      io.Closer
	frames  *wire.Reader // of the agent
	back    io.Closer
	offered func(*wire.Offered) // changes what the agent offers; nil: nothing
	agent   chan error
}

func (r *remote) Name() string { return r.name }

func (r *remote) Send(t wire.Type, message any) {
	payload, _ := json.Marshal(message)
	r.queue <- wire.Frame{Type: t, Payload: payload}
}

func (r *remote) Piece(data []byte) error { return r.out.Send(wire.TypePiece, 0, data) }

func (r *remote) Next() (wire.Frame, error) {
	f, err := r.frames.Next()
	switch {
	case err != nil:
	case f.Type == wire.TypeRefuse:
		err = wire.Handle(f, func(r wire.Refuse) error { return errors.New(r.What) })
	case f.Type == wire.TypeOffered && r.offered != nil:
		var o wire.Offered
		if err := f.Decode(&o); err != nil {
			return f, err
		}
		r.offered(&o)
		f.Payload, err = json.Marshal(o)
	}
	return f, err
}

func (r *remote) Cancel() { r.in.Close(); r.back.Close() }

// agent is what a host does with the frames of the launcher.
type agent func(next func() (wire.Frame, error), out *wire.Writer) error

// connect starts an agent. Frames to it pass through a queue, as a session's do.
func (w *world) connect(name string, run agent) *remote {
	in, toAgent := io.Pipe()
	fromAgent, back := io.Pipe()
	r := &remote{
		name:   name,
		queue:  make(chan wire.Frame, 1000),
		out:    wire.NewWriter(toAgent),
		in:     toAgent,
		frames: wire.NewReader(fromAgent),
		back:   fromAgent,
		agent:  make(chan error, 1),
	}
	w.Cleanup(func() { close(r.queue) })
	go func() {
		for f := range r.queue {
			_ = r.out.Send(f.Type, 0, f.Payload)
		}
	}()
	go func() {
		out := wire.NewWriter(back)
		err := run(wire.NewReader(in).Next, out)
		if err != nil {
			_ = out.SendMessage(wire.TypeRefuse, wire.Refuse{What: err.Error()})
		}
		in.CloseWithError(io.ErrClosedPipe)
		back.Close()
		r.agent <- err
	}()
	w.Cleanup(func() { r.Cancel(); <-r.agent })
	return r
}

// honest is the agent of a host.
func (w *world) honest(i int) agent {
	return func(next func() (wire.Frame, error), out *wire.Writer) error {
		f, err := next()
		if err != nil {
			return err
		}
		return receive(w.Context(), f.Payload, next, out, func(o wire.Offer) (Target, error) {
			return Keep(o, w.homes[i])
		}, cmp.Or(w.limit, starveTime))
	}
}

func (w *world) path(i int) string { return filepath.Join(w.homes[i], "in/it/file") }

func loopback() []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} }

// deliver brings the file to all hosts at a time, in the order in which they join.
func (w *world) deliver(g *Group, hosts []*remote, addrs []netip.Addr) ([]Delivered, []error) {
	all := make([]Delivered, len(hosts))
	errs := make([]error, len(hosts))
	var work sync.WaitGroup
	for i, h := range hosts {
		work.Go(func() {
			must.Until(w, "the ones before have joined", func() bool {
				g.mu.Lock()
				defer g.mu.Unlock()
				return len(g.order)+w.failed(g) >= i
			})
			all[i], errs[i] = g.Deliver(h, addrs)
		})
	}
	work.Wait()
	return all, errs
}

// failed counts the members that failed before they said where they listen. The caller holds the
// group's lock.
func (w *world) failed(g *Group) (n int) {
	for _, m := range g.members {
		if m.gone && !slices.Contains(g.order, m) {
			n++
		}
	}
	return n
}

// wants checks the file on a host.
func (w *world) wants(i int) {
	w.Helper()
	got, err := os.ReadFile(w.path(i))
	check.That(w, err == nil && bytes.Equal(got, w.data),
		"host %d has %d bytes of %d, or others: %v", i, len(got), len(w.data), err)
	if info, err := os.Stat(w.path(i)); err == nil &&
		(info.Mode().Perm() != 0o640 || info.ModTime().UnixNano() != 1e18) {
		w.Errorf("host %d: mode %v, time %v", i, info.Mode(), info.ModTime())
	}
	if left, _ := os.ReadDir(filepath.Dir(w.path(i))); len(left) != 1 {
		w.Errorf("host %d has %v", i, left)
	}
}

func (w *world) hosts(n int) (all []*remote) {
	for i := range n {
		all = append(all, w.connect(fmt.Sprint("f", i), w.honest(i)))
	}
	return all
}

const testSize = 3*minChunk + 12345

// A full or missing folder of temporary files is explained; an error of what is packed is not.
func TestTemporaryFolderIsNamed(t *testing.T) {
	write := func(result error) func(*os.File) error { return func(*os.File) error { return result } }
	explained := func(err error) bool {
		e, is := errors.AsType[*trust.TemporaryError](err)
		return is && strings.Contains(e.Hint(), "TMPDIR=")
	}
	full := &fs.PathError{Op: "write", Path: "/tmp/x", Err: syscall.ENOSPC}
	_, err := Pack(write(full))
	check.That(t, explained(err) && strings.Contains(err.Error(), " free"), "full: %v", err)
	_, err = Pack(write(fs.ErrPermission))
	check.That(t, err != nil && !explained(err), "packed file: %v", err)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "absent"))
	_, err = Pack(write(nil))
	check.That(t, explained(err), "missing: %v", err)
}

func TestFileLeavesTheLauncherOnce(t *testing.T) {
	for _, size := range []int{0, 1, minChunk, testSize} {
		w := newWorld(t, 5, size)
		all := w.mustDeliver(w.hosts(5), loopback())
		for i, d := range all {
			w.wants(i)
			fed := int64(0)
			from := fmt.Sprint("f", i-1)
			if i == 0 {
				fed = int64(size)
				from = ""
			}
			if size == 0 {
				from = ""
			}
			check.That(t, d == (Delivered{Path: w.path(i), Fed: fed, From: from}), "%d bytes: host %d: %+v", size, i, d)
		}
	}
}

// Hosts that do not listen, or not where they say, get the file from the launcher.
func TestUnreachableHostsAreFed(t *testing.T) {
	w := newWorld(t, 3, testSize)
	all := w.mustDeliver(w.hosts(3), nil)
	for i, d := range all {
		w.wants(i)
		check.That(t, d.Fed == testSize && d.From == "", "host %d: %+v", i, d)
	}
	w = newWorld(t, 2, testSize)
	hosts := w.hosts(2)
	closed := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed.Close()
	hosts[0].offered = func(o *wire.Offered) {
		o.Addrs = []netip.AddrPort{netip.MustParseAddrPort(closed.Addr().String())}
	}
	if all, errs := w.deliver(w.group(2), hosts, loopback()); errors.Join(errs...) != nil || all[1].Fed != testSize {
		t.Errorf("%+v, %v", all, errs)
	}
	w.wants(1)
}

// between returns the address of a proxy. carry returns what passes the bytes from the dialer, and
// what passes those to it.
func between(t *testing.T, to netip.AddrPort, carry func(here, there net.Conn) (forth, back func())) netip.AddrPort {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var work sync.WaitGroup
	t.Cleanup(func() { l.Close(); work.Wait() })
	work.Go(func() {
		for {
			here, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", to.String())
			if err != nil {
				here.Close()
				continue
			}
			forth, back := carry(here, there)
			work.Go(forth)
			work.Go(back)
		}
	})
	return netip.MustParseAddrPort(l.Addr().String())
}

// middle passes connections on, and breaks each after some bytes.
func middle(t *testing.T, to netip.AddrPort, bytes int64) netip.AddrPort {
	return between(t, to, func(here, there net.Conn) (forth, back func()) {
		return func() { _, _ = io.Copy(there, here) }, func() {
			_, _ = io.CopyN(here, there, bytes)
			here.Close()
			there.Close()
		}
	})
}

func TestBrokenLinkIsReplaced(t *testing.T) {
	w := newWorld(t, 3, testSize)
	hosts := w.hosts(3)
	hosts[1].offered = func(o *wire.Offered) { o.Addrs = []netip.AddrPort{middle(t, o.Addrs[0], 2*minChunk)} }
	all := w.mustDeliver(hosts, loopback())
	w.wants(2)
	check.That(t, all[2].From == "f0" && all[2].Fed == 0, "%+v", all[2])
	check.That(t, w.said("f2: fetching from f1: "), "nobody says what was broken: %q", w.lines)
}

// The host before the last fails while it passes the file on.
func TestLostHostIsReplaced(t *testing.T) {
	w := newWorld(t, 3, 40*minChunk)
	hosts := w.hosts(3)
	ctx, kill := context.WithCancel(t.Context())
	hosts[1] = w.connect("f1", func(next func() (wire.Frame, error), out *wire.Writer) error {
		f, err := next()
		if err != nil {
			return err
		}
		frames := func() (wire.Frame, error) {
			if f, err := next(); ctx.Err() == nil {
				return f, err
			}
			return wire.Frame{}, errors.New("the host fails")
		}
		return Receive(ctx, f.Payload, frames, out, func(o wire.Offer) (Target, error) { return Keep(o, w.homes[1]) })
	})
	hosts[1].offered = func(o *wire.Offered) { o.Addrs = []netip.AddrPort{middle(t, o.Addrs[0], 20*minChunk)} }
	go func() {
		must.Until(w, "the link broke", func() bool { return w.said("f2: fetching from f1") })
		kill()
		hosts[1].Cancel()
	}()
	all, errs := w.deliver(w.group(3), hosts, loopback())
	must.That(t, errs[0] == nil && errs[2] == nil, "%v", errs)
	w.wants(0)
	w.wants(2)
	check.That(t, all[2].Fed == 0, "%+v", all[2])
}

// joining takes an offer, and returns a member that can meet others, and its credentials.
func joining(next func() (wire.Frame, error)) (m *member, own *secure.Credentials, err error) {
	f, err := next()
	if err != nil {
		return nil, nil, err
	}
	m = &member{certs: map[int]secure.Fingerprint{}}
	if err := json.Unmarshal(f.Payload, &m.offer); err != nil {
		return nil, nil, err
	}
	own, err = m.identify()
	return m, own, err
}

// liar is an agent that serves other bytes than the file's, and says that it has it.
func (w *world) liar(say func(to net.Conn) error) agent {
	return func(next func() (wire.Frame, error), out *wire.Writer) error {
		m, own, err := joining(next)
		if err != nil {
			return err
		}
		o := m.offer
		listeners, where, err := secure.ListenAll(w.Context(), o.Addrs)
		if err != nil {
			return err
		}
		var serving sync.WaitGroup
		defer serving.Wait()
		defer listeners[0].Close()
		serving.Go(func() {
			m.auth.Serve(listeners[0], time.Minute, func(conn net.Conn, _, _ int) {
				for say(conn) == nil {
				}
			})
		})
		mark := own.Fingerprint()
		_ = out.SendMessage(wire.TypeOffered, wire.Offered{Have: o.Size, Addrs: where, Cert: mark[:]})
		for {
			f, err := next()
			if err != nil {
				return nil
			}
			switch f.Type {
			case wire.TypePeers:
				var p wire.Peers
				if err := f.Decode(&p); err != nil {
					return err
				}
				m.learn(p.Peers)
			case wire.TypeEnough:
				return out.SendMessage(wire.TypePassed, wire.Passed{Have: o.Size, Done: true, Path: []byte("/nowhere")})
			}
		}
	}
}

// greedy is an agent that fetches the file again and again, and tells how often it has got it.
func (w *world) greedy(times int, got *int) agent {
	return func(next func() (wire.Frame, error), out *wire.Writer) error {
		m, own, err := joining(next)
		if err != nil {
			return err
		}
		mark := own.Fingerprint()
		_ = out.SendMessage(wire.TypeOffered, wire.Offered{Cert: mark[:]})
		f, err := next()
		if err != nil {
			return err
		}
		var p wire.Peers
		if err := f.Decode(&p); err != nil {
			return err
		}
		m.learn(p.Peers)
		for range times {
			conn, _, err := reach(w.Context(), m.auth, p.Peers)
			if err != nil {
				return err
			}
			_, _ = conn.Write(make([]byte, 8))
			n, _ := io.Copy(io.Discard, conn)
			conn.Close()
			if n >= m.offer.Size {
				*got++
			}
		}
		return errors.New("it has had enough")
	}
}

// A host that fetches the file again and again is not given it more often than one whose fetches
// fail.
func TestFileIsPassedOnFewTimes(t *testing.T) {
	w := newWorld(t, 2, testSize)
	got := 0
	hosts := []*remote{w.connect("f0", w.honest(0)), w.connect("f1", w.greedy(4*maxFailures, &got))}
	_, errs := w.deliver(w.group(2), hosts, loopback())
	check.OK(t, errs[0])
	check.Error(nil, errs[1]).Any(t, "it has what it does not want")
	check.Equal(t, got, maxFailures, "times it got the file")
}

func TestLyingHostIsFoundOut(t *testing.T) {
	w := newWorld(t, 4, testSize)
	hosts := w.hosts(4)
	hosts[1] = w.connect("f1", w.liar(func(to net.Conn) error {
		return frames.Write(to, frames.Out, bytes.Repeat([]byte{7}, frames.Max))
	}))
	all := w.mustDeliver(hosts, loopback())
	for _, i := range []int{0, 2, 3} {
		w.wants(i)
	}
	check.That(t, all[2].From == "f0" && w.said("f2 says that f1 sent it other bytes than the file's"),
		"%+v, %q", all[2], w.lines)
}

// Hosts that give only signs of life, or next to nothing, are left, and none of them holds the
// others up; nor does one that takes nothing.
func TestIdleHostsHoldNobodyUp(t *testing.T) {
	drip := func(bytes int) func(to net.Conn) error {
		return func(to net.Conn) error {
			time.Sleep(5 * time.Millisecond)
			return frames.Write(to, frames.Out, make([]byte, bytes))
		}
	}
	w := newWorld(t, 6, testSize)
	copy(w.data, make([]byte, 1000)) // the drops are the file's
	must.OK(t, os.WriteFile(w.src.file.Name(), w.data, 0o600))
	w.src.sums = must.Get(w.src.sum())(t)
	w.limit = 200 * time.Millisecond
	hosts := w.hosts(6)
	hosts[1] = w.connect("f1", w.liar(drip(0)))
	hosts[2] = w.connect("f2", w.liar(drip(1)))
	hosts[4] = w.connect("f4", func(next func() (wire.Frame, error), out *wire.Writer) error {
		_ = out.SendMessage(wire.TypeOffered, wire.Offered{})
		for {
			if _, err := next(); err != nil {
				return nil
			}
			for range 100 {
				_ = out.SendMessage(wire.TypePassed, wire.Passed{Have: 1, Blamed: &wire.Blamed{Why: "x", Lied: true}})
			}
		}
	})
	hosts[5] = w.connect("f5", func(next func() (wire.Frame, error), out *wire.Writer) error {
		_ = out.SendMessage(wire.TypeOffered, wire.Offered{Have: testSize})
		for {
			if _, err := next(); err != nil {
				return nil
			}
		}
	})
	all, errs := w.deliver(w.group(6), hosts, loopback())
	w.wants(0)
	w.wants(3)
	check.That(t, errs[0] == nil && errs[3] == nil && all[3].Fed != 0, "%+v, %v", all, errs)
	for _, host := range []string{"f1", "f2"} {
		check.That(t, w.said("f3: fetching from "+host+": sent less than "),
			"nobody says what %s did: %q", host, w.lines)
	}
	n := strings.Count(strings.Join(w.lines, "\n"), "f4 says that f0 sent it other bytes")
	check.That(t, n <= 1, "%d complaints of f4 are shown", n)
	check.That(t, errs[4] != nil && strings.Contains(errs[4].Error(), "it has taken less than"),
		"the host that takes nothing: %v", errs[4])
	check.That(t, errs[5] != nil && strings.Contains(errs[5].Error(), "is not done with it in 2s"),
		"the host that has all and makes nothing of it: %v", errs[5])
}

// A host that fails ends with its own error, and the others have the file.
func TestFailedHostIsNamed(t *testing.T) {
	w := newWorld(t, 3, testSize)
	must.OK(t, os.MkdirAll(w.path(1), 0o755))
	_, errs := w.deliver(w.group(3), w.hosts(3), loopback())
	check.That(t, errs[1] != nil && errs[1].Error() == w.path(1)+" is a folder there", "%v", errs[1])
	check.That(t, errs[0] == nil && errs[2] == nil, "%v", errs)
	w.wants(0)
	w.wants(2)
}

// A relay sends neither the chunks that an interrupted one has left, unless they are wrong, nor a
// file that the host has.
func TestRelayIsResumed(t *testing.T) {
	w := newWorld(t, 2, 4*minChunk)
	deliver := func() []Delivered {
		t.Helper()
		all := w.mustDeliver(w.hosts(2), loopback())
		w.wants(0)
		w.wants(1)
		return all
	}
	deliver()
	// The sums are those of the same file; what is there is cut to two chunks and a half, of which
	// the second is wrong on host 1.
	for i := range 2 {
		part := bytes.Clone(w.data[:minChunk*5/2])
		part[minChunk*3/2] ^= byte(i)
		sum := w.src.Sum()
		name := filepath.Join(filepath.Dir(w.path(i)), fmt.Sprintf(".file.%x.gorun", sum[:8]))
		must.OK(t, errors.Join(os.Remove(w.path(i)), os.WriteFile(name, part, 0o600)))
	}
	all := deliver()
	check.That(t, all[0].Had == 2*minChunk && all[0].Fed == 2*minChunk && all[1].Had == minChunk && all[1].Fed == 0,
		"%+v", all)
	for i, d := range deliver() {
		check.That(t, d.Had == 4*minChunk && d.Fed == 0 && d.Path == w.path(i), "nothing has changed, and yet %+v", d)
	}
}

// mustDeliver delivers the file to hosts at addrs.
func (w *world) mustDeliver(hosts []*remote, addrs []netip.Addr) []Delivered {
	w.Helper()
	all, errs := w.deliver(w.group(len(hosts)), hosts, addrs)
	must.OK(w, errors.Join(errs...))
	return all
}

// Nothing is written through a link in the place of the hidden file, or of the file.
func TestLinksAreNotFollowed(t *testing.T) {
	w := newWorld(t, 1, 100)
	precious := filepath.Join(t.TempDir(), "precious")
	sum := w.src.Sum()
	dir := filepath.Dir(w.path(0))
	must.OK(t, errors.Join(os.WriteFile(precious, []byte("precious"), 0o600), os.MkdirAll(dir, 0o755),
		os.Symlink(precious, w.path(0)), os.Symlink(precious,
			filepath.Join(dir, fmt.Sprintf(".file.%x.gorun", sum[:8])))))
	_, errs := w.deliver(w.group(1), w.hosts(1), nil)
	must.That(t, errs[0] == nil, "%v", errs)
	text, _ := os.ReadFile(precious)
	check.That(t, string(text) == "precious", "it holds %q now", text)
	got, err := os.ReadFile(w.path(0))
	check.That(t, err == nil && bytes.Equal(got, w.data), "%v", err)
}

// A file that changes while it is sent is no success.
func TestChangedFileIsRefused(t *testing.T) {
	w := newWorld(t, 2, testSize)
	must.OK(t, os.WriteFile(w.src.file.Name(), make([]byte, testSize), 0o600))
	_, errs := w.deliver(w.group(2), w.hosts(2), loopback())
	for i, err := range errs {
		check.That(t, err != nil && strings.Contains(err.Error(), "the file was changed while it was sent"),
			"host %d: %v", i, err)
	}
}

func TestHostAnswersAreValidated(t *testing.T) {
	many := make([]netip.AddrPort, maxAddrs+1)
	for name, answers := range map[string][]any{
		"more than there is": {wire.Offered{Have: testSize + 1}},
		"less than nothing":  {wire.Offered{Have: -1}},
		"too many addresses": {wire.Offered{Addrs: many, Cert: make([]byte, 32)}},
		"no certificate":     {wire.Offered{Addrs: many[:1]}},
		"a port of another": {wire.Offered{Addrs: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.9:6379")},
			Cert: make([]byte, 32)}, wire.Passed{Have: testSize, Done: true}},
		"a port of the system": {wire.Offered{Addrs: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:22")},
			Cert: make([]byte, 32)}, wire.Passed{Have: testSize, Done: true}},
		"a long certificate": {wire.Offered{Cert: make([]byte, 1<<20)}, wire.Passed{Have: testSize},
			wire.Passed{Have: testSize, Done: true, Path: []byte("x")}},
		"a long path":          {wire.Offered{}, wire.Passed{Have: testSize, Path: make([]byte, 1<<20)}},
		"less than before":     {wire.Offered{Have: 10}, wire.Passed{Have: 9}},
		"asks twice":           {wire.Offered{}, wire.Passed{Feed: true, From: -1}, wire.Passed{Feed: true, From: -1}},
		"is done without path": {wire.Offered{}, wire.Passed{Done: true, Have: testSize}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 0, testSize)
			h := w.connect("f0", func(next func() (wire.Frame, error), out *wire.Writer) error {
				if _, err := next(); err != nil {
					return err
				}
				for i, a := range answers {
					kind := wire.TypePassed
					if i == 0 {
						kind = wire.TypeOffered
					}
					_ = out.SendMessage(kind, a)
				}
				for {
					if _, err := next(); err != nil {
						return nil
					}
				}
			})
			_, errs := w.deliver(w.group(1), []*remote{h}, loopback())
			var wrong *wire.FormatError
			check.That(t, errors.As(errs[0], &wrong), "%v", errs[0])
		})
	}
}

// Long addresses of a host lengthen no message to another host.
func TestAddressesOfHostsAreShort(t *testing.T) {
	w := newWorld(t, 0, testSize)
	zone := netip.MustParseAddrPort("[2001:db8::1%" + strings.Repeat("<", 1<<20) + "]:5000")
	told := make(chan wire.Peers, 1)
	member := func(has int64) agent {
		return func(next func() (wire.Frame, error), out *wire.Writer) error {
			for {
				f, err := next()
				if err != nil {
					return nil
				}
				switch f.Type {
				case wire.TypeOffer:
					answer := wire.Offered{Addrs: []netip.AddrPort{zone}, Cert: make([]byte, 32), Have: has}
					_ = out.SendMessage(wire.TypeOffered, answer)
				case wire.TypePeers:
					_ = wire.Handle(f, func(p wire.Peers) error {
						if len(p.Peers) > 0 && len(p.Peers[0].Addrs) > 0 {
							told <- p
						}
						return nil
					})
				case wire.TypeEnough:
					done := wire.Passed{Have: testSize, Done: true, Path: []byte("x")}
					_ = out.SendMessage(wire.TypePassed, done)
				}
			}
		}
	}
	hosts := []*remote{w.connect("f0", member(testSize)), w.connect("f1", member(testSize))}
	_, errs := w.deliver(w.group(2), hosts, []netip.Addr{netip.MustParseAddr("2001:db8::1")})
	check.OK(t, errors.Join(errs...))
	p := <-told
	check.Equal(t, p.Peers[0].Addrs[0].String(), "[2001:db8::1]:5000")
}

func TestOffersAreValidated(t *testing.T) {
	good := wire.Offer{
		Size:  minChunk + 1,
		Chunk: minChunk,
		Sums:  make([]byte, 64),
		Key:   make([]byte, 32),
	}
	check.OK(t, checkOffer(good))
	for name, change := range map[string]func(*wire.Offer){
		"size":   func(o *wire.Offer) { o.Size = -1 },
		"chunk":  func(o *wire.Offer) { o.Chunk = 0 },
		"sums":   func(o *wire.Offer) { o.Sums = o.Sums[1:] },
		"key":    func(o *wire.Offer) { o.Key = nil },
		"member": func(o *wire.Offer) { o.Member = -1 },
	} {
		o := good
		change(&o)
		check.That(t, checkOffer(o) != nil, "%s: no error", name)
	}
	for _, name := range []string{"", ".", "..", "a/b", "a\x00"} {
		o := good
		o.Name = []byte(name)
		check.Error(Keep(o, t.TempDir())).Any(t, name, "is a name")
	}
	for size, want := range map[int64]int64{0: minChunk, 1 << 30: 2 * minChunk, 1<<30 - 1: minChunk,
		1 << 40: 1<<28 + minChunk} {
		if got := chunkFor(size); got != want || chunks(size, got) > maxChunks {
			t.Errorf("chunks of %d bytes have %d, want %d; there are %d", size, got, want, chunks(size, got))
		}
	}
}

// While a file is passed on, whoever has not its key gets no byte, whatever it sends, a recording
// of a member included, and holds nobody up.
func TestStrangersGetNothing(t *testing.T) {
	w := newWorld(t, 2, testSize)
	hosts := w.hosts(2)
	var recorded []byte
	var mu sync.Mutex
	var at netip.AddrPort
	hosts[0].offered = func(o *wire.Offered) {
		mu.Lock()
		defer mu.Unlock()
		at = o.Addrs[0]
		o.Addrs = []netip.AddrPort{recording(t, at, func(b []byte) {
			mu.Lock()
			defer mu.Unlock()
			recorded = append(recorded, b...)
		})}
	}
	var attack sync.WaitGroup
	g := w.group(3) // one more, so that it is not over
	attack.Go(func() {
		defer g.Miss()
		must.Until(w, "the file was fetched", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(recorded) > 400 && g.settledMembers() == 2
		})
		mu.Lock()
		defer mu.Unlock()
		for name, text := range map[string][]byte{"garbage": bytes.Repeat([]byte("GET / HTTP/1.1\r\n\r\n"), 100),
			"a recording": recorded[:120+32], "a whole recording": recorded} {
			conn, err := net.Dial("tcp", at.String())
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			defer conn.Close()
			_, _ = conn.Write(text)
			// A recording of a member's first message is answered with a challenge, and nothing
			// follows.
			_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
			got, err := io.ReadAll(conn)
			check.That(t, !errors.Is(err, os.ErrDeadlineExceeded) && len(got) <= 120 &&
				(name != "garbage" || len(got) == 0) && !bytes.Contains(got, w.data[:16]),
				"%s gets %d bytes, %v", name, len(got), err)
		}
		for range 600 { // half-open
			conn, err := net.Dial("tcp", at.String())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
		}
	})
	_, errs := w.deliver(g, hosts, loopback())
	attack.Wait()
	check.OK(t, errors.Join(errs...))
	w.wants(0)
	w.wants(1)
}

func (g *Group) settledMembers() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		if m.settled {
			n++
		}
	}
	return n
}

// recording passes connections on and tells what the dialer says.
func recording(t *testing.T, to netip.AddrPort, heard func([]byte)) netip.AddrPort {
	return between(t, to, func(here, there net.Conn) (forth, back func()) {
		return func() {
				_, _ = io.Copy(io.MultiWriter(there, listener(heard)), here)
				there.Close()
			}, func() {
				_, _ = io.Copy(here, there)
				here.Close()
			}
	})
}

type listener func([]byte)

func (l listener) Write(p []byte) (int, error) { l(p); return len(p), nil }

// Only the user can read a part of a file.
func TestPartialFileIsTheUsersAlone(t *testing.T) {
	w := newWorld(t, 1, testSize)
	offer := wire.Offer{
		Place: w.place,
		Size:  testSize,
		Chunk: w.src.chunk,
		Sums:  w.src.sums,
	}
	target := must.Get(Keep(offer, w.homes[0]))(t)
	defer target.Close()
	info, err := target.File().Stat()
	check.That(t, err == nil && info.Mode() == 0o600, "%v, %v", info.Mode(), err)
	// Another launch of the same file does not write to it.
	other, err := Keep(offer, w.homes[0])
	check.That(t, err == nil && !os.SameFile(info, must.Get(other.File().Stat())(t)),
		"two launches write to one file, %v", err)
	other.Close()
	left, _ := os.ReadDir(filepath.Dir(w.path(0)))
	check.That(t, len(left) == 1, "left %v", left)
}
