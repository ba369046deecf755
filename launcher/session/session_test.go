package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/plan"
)

// scripted is a Host that runs one function for every command.
type scripted func(ctx context.Context, nonce string, stdin io.Reader, stdout, stderr io.Writer) error

func (c scripted) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	return c(ctx, argv[len(argv)-1], stdin, stdout, stderr)
}
func (scripted) Put(context.Context, string, fs.FileMode, io.Reader) error { return fs.ErrPermission }
func (scripted) Close() error                                              { return nil }

// openAt opens a session with an agent of build one.
func openAt(ctx context.Context, host Host, path string) (*Session, error) {
	o := opening{
		id:    Identity{Host: &plan.Host{Host: hostfile.Host{Name: "f1"}}},
		conn:  host,
		build: "one",
		hello: helloTime,
		beat:  BeatTime,
	}
	return o.at(ctx, Paths{Installed: path})
}

// sayHello is an agent's first words.
func sayHello(stdout io.Writer, nonce, build string) error {
	if _, err := stdout.Write(wire.Preamble(nonce)); err != nil {
		return err
	}
	return wire.NewWriter(stdout).SendMessage(wire.TypeHello, wire.Hello{Protocol: wire.Protocol, Build: build, PID: 7})
}

// helloOf is a host whose agent says one hello.
func helloOf(format string, args ...any) scripted {
	return func(_ context.Context, nonce string, stdin io.Reader, stdout, _ io.Writer) error {
		stdout.Write(wire.Preamble(nonce))
		wire.NewWriter(stdout).Send(wire.TypeHello, 0, fmt.Appendf(nil, format, args...))
		_, err := io.Copy(io.Discard, stdin)
		return err
	}
}

func TestOpenSessionFindsTheAgentBehindNoise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quit := make(chan struct{})
		host := scripted(func(ctx context.Context, nonce string, stdin io.Reader, stdout, _ io.Writer) error {
			defer close(quit)
			io.WriteString(stdout, "Welcome!\n\x00gorun-agent 0000\n")
			check.OK(t, sayHello(stdout, nonce, "one"))
			in := wire.NewReader(stdin)
			if f, err := in.Next(); err != nil || f.Type != wire.TypeHello {
				t.Errorf("%v, %v: want the launcher's hello", f.Type, err)
			}
			if f, err := in.Next(); err != nil || f.Type != wire.TypeStop {
				t.Errorf("%v, %v: want what was told", f.Type, err)
			}
			_, err := in.Next()
			return err // EOF, when the session is closed
		})
		s := must.Get(openAt(t.Context(), host, "/gorun"))(t)
		check.That(t, s.Hello.PID == 7, "hello %+v", s.Hello)
		s.Out.SendMessage(wire.TypeStop, wire.Stop{})
		synctest.Wait()
		began := time.Now()
		s.Close()
		<-quit
		check.Equal(t, time.Since(began), 0, "an agent that ends with its stdin was waited for")
	})
}

func TestOpenSessionSaysWhyThereIsNoAgent(t *testing.T) {
	silent := func(ctx context.Context, _ string, _ io.Reader, _, _ io.Writer) error {
		<-ctx.Done()
		return ctx.Err()
	}
	tests := []struct {
		name string
		host scripted
		took time.Duration
		want string
		next bool // another path may hold the agent
	}{
		{"there is no such file", func(_ context.Context, nonce string, _ io.Reader, stdout, stderr io.Writer) error {
			stdout.Write(wire.StartMark(nonce))
			io.WriteString(stderr, "sh: 1: /gorun: not found\n")
			return fake.ExitStatus(127)
		}, 0, "start /gorun: exit status 127: sh: 1: /gorun: not found", true},
		{"somebody kills it at once", func(context.Context, string, io.Reader, io.Writer, io.Writer) error {
			return fake.ExitStatus(137)
		}, 0, "start /gorun: exit status 137", false},
		{"the account has no shell", func(_ context.Context, _ string, _ io.Reader, stdout, _ io.Writer) error {
			io.WriteString(stdout, "This account is\x1b[1m currently not available.\r\n")
			return fake.ExitStatus(1)
		}, 0, `the account does not run commands: exit status 1, and it says "This account is?[1m currently not ` +
			`available."`, false},
		{"another program", func(_ context.Context, nonce string, _ io.Reader, stdout, _ io.Writer) error {
			io.WriteString(stdout, "motd\n"+string(wire.StartMark(nonce))+"usage\n")
			return fake.ExitStatus(1)
		}, 0, `start /gorun: exit status 1, after printing "motd; usage"`, true},
		{"another build", helloOf(`{"Protocol":%d,"Build":"two","PID":7}`, wire.Protocol), 0, "start /gorun: another build of gorun is there", true},
		{"another build that says it in another form",
			helloOf(`{"Protocol":9,"Build":"two","PID":"x","Addrs":7,"Addresses":"none"}`), 0,
			"start /gorun: another build of gorun is there", true},
		{"our build, with an address that is none",
			helloOf(`{"Protocol":%d,"Build":"one","Addresses":[{"Interface":"eth0","Prefix":"10.0.0.1"}]}`,
				wire.Protocol), 0, "start /gorun: malformed frame: hello message: ", false},
		{"the connection is lost", func(_ context.Context, _ string, _ io.Reader, _, _ io.Writer) error {
			return errors.New("connection reset")
		}, 0, "start /gorun: connection reset", false},
		{"it ends well and says nothing", func(_ context.Context, nonce string, _ io.Reader, stdout,
			_ io.Writer) error {
			stdout.Write(wire.StartMark(nonce))
			return nil
		}, 0, "start /gorun: no agent answered: EOF", false},
		{"it says nothing", silent, helloTime, "start /gorun: no agent answered: no answer within 10s", false},
		{"it does not read", func(ctx context.Context, nonce string, _ io.Reader, stdout, _ io.Writer) error {
			if err := sayHello(stdout, nonce, "one"); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}, helloTime, "start /gorun: ", false},
		{"it never stops printing", func(_ context.Context, _ string, _ io.Reader, stdout, _ io.Writer) error {
			for {
				if _, err := stdout.Write(bytes.Repeat([]byte("y\n"), 4096)); err != nil {
					return err
				}
			}
		}, 0, "start /gorun: no agent answered: the login shell printed more than 64 KiB before gorun started", false},
		{"it speaks something else after the preamble", func(ctx context.Context, nonce string, _ io.Reader, stdout,
			_ io.Writer) error {
			stdout.Write(append(wire.Preamble(nonce), "GET / HTTP/1.1\r\n\r\n"...))
			<-ctx.Done()
			return ctx.Err()
		}, 0, "start /gorun: malformed frame:", false},
		{"it does not say hello first", func(ctx context.Context, nonce string, _ io.Reader, stdout,
			_ io.Writer) error {
			stdout.Write(wire.Preamble(nonce))
			wire.NewWriter(stdout).Send(wire.TypeDone, 0, nil)
			<-ctx.Done()
			return ctx.Err()
		}, 0, "start /gorun: malformed frame: the agent did not say hello first", false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s, err := openAt(t.Context(), tc.host, "/gorun")
				must.That(t, s == nil && err != nil, "%v, %v", s, err)
				check.That(t, strings.HasPrefix(err.Error(), tc.want), "got %.300q, want %q", err, tc.want)
				took := time.Since(began)
				check.Equal(t, took, tc.took, "took")
				check.That(t, isNoAgent(err) == tc.next, "isNoAgent(%v) = %v", err, !tc.next)
			})
		})
	}
}

func TestOpenSessionEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("not wanted any more")
		time.AfterFunc(time.Second, func() { cancel(why) })
		began := time.Now()
		_, err := openAt(ctx, scripted(func(ctx context.Context, _ string, _ io.Reader, stdout, _ io.Writer) error {
			io.WriteString(stdout, "still booting\n")
			<-ctx.Done()
			return ctx.Err()
		}), "/gorun")
		check.That(t, errors.Is(err, why) && time.Since(began) == time.Second, "%v after %v", err, time.Since(began))
	})
}

func TestSessionOutlivesItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := &fake.Machine{Disk: fake.NewDisk(map[string]string{"/gorun": "build one"})}
		s := must.Get(openAt(ctx, m, "/gorun"))(t)
		cancel()
		synctest.Wait()
		select {
		case <-s.ended:
			t.Error("the agent ended with the context it was started in")
		default:
		}
		s.Close()
	})
}

func TestSessionCutsOffACommandThatDoesNotEnd(t *testing.T) {
	for name, life := range map[string]func(ctx context.Context, stdout io.Writer) error{
		"silent": func(ctx context.Context, _ io.Writer) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"still printing": func(ctx context.Context, stdout io.Writer) error {
			for ctx.Err() == nil {
				_, _ = stdout.Write(make([]byte, 100))
				time.Sleep(10 * time.Millisecond)
			}
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := openAt(t.Context(), scripted(func(ctx context.Context, nonce string, stdin io.Reader, stdout,
					_ io.Writer) error {
					if err := sayHello(stdout, nonce, "one"); err != nil {
						return err
					}
					if _, err := wire.NewReader(stdin).Next(); err != nil {
						return err
					}
					return life(ctx, stdout)
				}), "/gorun")
				must.OK(t, err)
				s.Out.SendMessage(wire.TypeStop, wire.Stop{}) // which it never reads
				time.Sleep(time.Second)
				began := time.Now()
				s.Close()
				if took := time.Since(began); took < partingTime || took > partingTime+time.Second {
					t.Errorf("closed after %v, want %v", took, partingTime)
				}
			})
		})
	}
}

func TestSessionClock(t *testing.T) {
	beat := func(s *Liveness, at, now time.Duration) {
		payload := []byte{0, 0, 0, 0, byte(at >> 24), byte(at >> 16), byte(at >> 8), byte(at)}
		s.Received(wire.Frame{Type: wire.TypeHeartbeat, Payload: payload}, now)
	}
	s := &Liveness{}
	got := s.ToLauncher(time.Second, 5*time.Second)
	check.That(t, got == 5*time.Second, "before any heartbeat: %v, want now", got)
	beat(s, 1000, 6000) // 5000 ns apart, with what the heartbeat took
	beat(s, 2000, 6500)
	beat(s, 3000, 9000)
	got = s.ToLauncher(2500, 9000)
	check.That(t, got == 7000, "got %d, want the offset of the fastest heartbeat, 4500", got)
	got = s.ToLauncher(8000, 9000)
	check.That(t, got == 9000, "got %d: nothing has happened after now", got)
	s.Received(wire.Frame{Type: wire.TypeHeartbeat, Payload: []byte("short")}, 1)
	if got, _ := s.Offset(); got != 4500 {
		t.Errorf("a malformed heartbeat set the clock to %v", got)
	}
}

// TestReadyTooLate checks that a ready that comes after the start was cancelled does not count: the
// session has been ended.
func TestReadyTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("not wanted any more")
		m := &fake.Machine{Disk: fake.NewDisk(map[string]string{"/opt/gorun": "build one"}),
			Serve: func(a *fake.Agent) error {
				if _, err := a.Expect(wire.TypeJob); err != nil {
					return err
				}
				cancel(why)
				time.Sleep(time.Millisecond)
				return a.Out.SendMessage(wire.TypeReady, wire.Ready{})
			}}
		s, err := openAt(ctx, m, "/opt/gorun")
		must.OK(t, err)
		defer s.Close()
		err = s.Prepare(ctx, wire.Job{}, Helpers{}, nil)
		check.That(t, errors.Is(err, why), "%v, want that %v", err, why)
	})
}

func TestTailKeepsTheEnd(t *testing.T) {
	tl := prose.NewTail(stderrSize)
	for i := range 1000 {
		n, err := tl.Write([]byte(strings.Repeat("x", i%7) + "\n"))
		must.That(t, err == nil && n == i%7+1, "wrote %d, %v", n, err)
	}
	tl.Write([]byte(strings.Repeat("y", 3*stderrSize) + " the end\x1b\n"))
	got := tl.String()
	if len(got) > stderrSize+40 || !strings.HasSuffix(got, "y the end?") ||
		!strings.HasPrefix(got, "(8103 bytes left out) ... y") {
		t.Errorf("%d bytes, from %.40q to %.20q", len(got), got, got[max(0, len(got)-20):])
	}
	tl.Write([]byte("\nsh: gorun: not found\n" + strings.Repeat("z", stderrSize-50) + "\n"))
	if got := tl.String(); !strings.HasPrefix(got, "(10151 bytes left out) ... sh: gorun: not found; zzz") {
		t.Errorf("it begins %.60q", got)
	}
}

func TestHostsThatNeedTheGPUProgram(t *testing.T) {
	for _, tt := range []struct {
		lacks, partitioned bool
		wish               wire.GPUs
		want               bool
	}{
		{true, false, wire.GPUs{PerRank: 1}, true},
		{true, true, wire.GPUs{PerRank: 1}, true},
		{true, true, wire.GPUs{}, true},
		{true, false, wire.GPUs{}, false},
		{true, false, wire.GPUs{Listed: 4}, false},
		{true, true, wire.GPUs{Leave: true}, false},
		{true, true, wire.GPUs{PerRank: 1, Leave: true}, false},
		{false, false, wire.GPUs{PerRank: 1}, false},
		{false, true, wire.GPUs{PerRank: 1}, false},
		{false, true, wire.GPUs{}, false},
	} {
		check.Equal(t, wantsGPUProgram(wire.Hello{LacksGPUProgram: tt.lacks, Partitioned: tt.partitioned}, tt.wish),
			tt.want, "lacks it", tt.lacks, "partitioned", tt.partitioned, tt.wish)
	}
}

func TestNoAgentHints(t *testing.T) {
	for _, tc := range []struct {
		stderr string
		err    error
		want   string
	}{
		{"", &silenceError{helloTime}, "--start-timeout"},
		{"sh: 1: ./gorun: Exec format error", errors.New("command exited with status 126"), "make agents"},
		{"", fmt.Errorf("%w", &RefusedError{}), ""},
		{"whatever", io.EOF, ""},
	} {
		got := (&NoAgentError{Path: "/gorun", stderr: tc.stderr, Err: tc.err}).Hint()
		check.That(t, strings.Contains(got, tc.want) && (tc.want == "") == (got == ""), "%v: hint %q", tc.err, got)
	}
}

// TestHeartbeatsOfManyHostsAreRarer bounds their number, and the time that an agent without a job
// waits for one.
func TestHeartbeatsOfManyHostsAreRarer(t *testing.T) {
	for hosts, want := range map[int]time.Duration{0: BeatTime, 1: BeatTime, 512: BeatTime, 1024: 2 * BeatTime,
		10000: 4 * time.Second, 100000: 4 * time.Second} {
		got := beatFor(hosts)
		check.That(t, got == want && got <= helloTime/2, "%d hosts: every %v, want %v", hosts, got, want)
	}
}

// at is a host whose connection leads to an address.
type at struct {
	scripted
	addr net.Addr
}

func (a at) RemoteAddr() net.Addr { return a.addr }

// A host is this machine only if the connection with it leads here.
func TestHostsElsewhereAreNotThisMachine(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 22} }
	for _, tc := range []struct {
		addr       net.Addr
		told, want string
	}{
		{tcp("127.0.0.1"), "127.0.0.1", "127.0.0.1"},
		{tcp("::1"), "127.0.0.1", "127.0.0.1"},
		{tcp("10.0.0.2"), "127.0.0.1", "10.0.0.2"},
		{tcp("10.0.0.2"), "::1", "10.0.0.2"},
		{tcp("10.0.0.2"), "::ffff:127.0.0.1", "10.0.0.2"},
		{tcp("10.0.0.2"), "192.168.0.2", "192.168.0.2"}, // behind a translation of addresses
		{tcp("10.0.0.2"), "", ""},
		{nil, "127.0.0.1", "127.0.0.1"}, // by way of another host
	} {
		host := at{helloOf(`{"Protocol":%d,"Build":"one","Reached":%q}`, wire.Protocol, tc.told), tc.addr}
		s := must.Get(openAt(t.Context(), host, "/gorun"))(t)
		check.Equal(t, s.Hello.Reached, tc.want, tc.addr, "told", tc.told)
		s.Close()
	}
}
