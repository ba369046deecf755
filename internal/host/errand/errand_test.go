package errand

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// fakeHost runs ranks 4, which is this process, and 5, which has ended. Processes are children of
// the test.
type fakeHost struct {
	t      *testing.T
	server *Server
	frames *wire.Reader
	mu     sync.Mutex
	pids   map[uint32]int // by errand
	sent   []string       // signals to ranks
	gpus   bool
}

func newHost(t *testing.T) *fakeHost {
	t.Helper()
	read, write := io.Pipe()
	ready := make(chan struct{})
	close(ready)
	h := &fakeHost{t: t, frames: wire.NewReader(read), pids: map[uint32]int{}}
	h.server = NewServer(wire.NewWriter(write), Host{
		Ready:  ready,
		Ranks:  func() []int { return []int{4, 5} },
		Owns:   func(rank int) bool { return rank == 4 || rank == 5 },
		Start:  h.start,
		Signal: h.signal,
		SignalProcess: func(id uint32, s syscall.Signal) {
			h.mu.Lock()
			defer h.mu.Unlock()
			_ = syscall.Kill(-h.pids[id], s)
		},
		PID:  func(rank int) (int, bool) { return os.Getpid(), rank == 4 },
		GPUs: func() bool { return h.gpus },
		Find: func(name, _, _ string) (string, error) { return exec.LookPath(name) },
	})
	t.Cleanup(func() {
		h.server.Close()
		go func() { _, _ = io.Copy(io.Discard, read) }()
		h.server.Wait()
		write.Close()
	})
	return h
}

func (h *fakeHost) start(p Process) error {
	pid, err := syscall.ForkExec(p.Path, p.Argv, &syscall.ProcAttr{
		Dir:   p.Dir,
		Env:   p.Env,
		Files: p.Files,
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: p.Terminal},
	})
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.pids[p.ID] = pid
	h.mu.Unlock()
	go func() {
		var status syscall.WaitStatus
		for _, err := syscall.Wait4(pid, &status, 0, nil); err == syscall.EINTR; _,
			err = syscall.Wait4(pid, &status, 0, nil) {
		}
		h.server.Exited(p.ID, status)
	}()
	return nil
}

func (h *fakeHost) signal(rank int, s syscall.Signal) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = append(h.sent, fmt.Sprint(rank, " ", int(s)))
	return rank == 4
}

func (h *fakeHost) ask(a wire.Ask) {
	h.t.Helper()
	must.OK(h.t, h.tryAsk(a))
}

func (h *fakeHost) tell(what wire.Tell, data []byte) {
	h.t.Helper()
	must.OK(h.t, h.tryTell(what, data))
}

func (h *fakeHost) tryAsk(a wire.Ask) error {
	text := must.Get(json.Marshal(a))(h.t)
	return h.server.Frame(wire.Frame{Type: wire.TypeAsk, Payload: text})
}

func (h *fakeHost) tryTell(what wire.Tell, data []byte) error {
	return h.server.Frame(wire.Frame{Type: wire.TypeTell, Stream: 1, Payload: append([]byte{byte(what)}, data...)})
}

// told returns what the server sends next, and for which errand.
func (h *fakeHost) told() (errand uint32, what wire.Tell, data []byte) {
	h.t.Helper()
	f, err := h.frames.Next()
	if err == nil {
		what, data, err = f.Tell()
	}
	must.OK(h.t, err)
	return f.Stream, what, data
}

// result reads an errand to its end, and returns credit unless it is not to be.
func (h *fakeHost) result() (out, errs string, end wire.ErrandEnd) {
	h.t.Helper()
	var bufs [2]bytes.Buffer
	for {
		_, what, data := h.told()
		switch what {
		case wire.TellOut, wire.TellErr:
			bufs[what-wire.TellOut].Write(data)
			n := uint32(wire.Cost(len(data)))
			h.tell(wire.TellCredit, []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		case wire.TellEnd:
			must.OK(h.t, json.Unmarshal(data, &end))
			return bufs[0].String(), bufs[1].String(), end
		}
	}
}

func TestErrands(t *testing.T) {
	t.Setenv("PMI_FD", "3")
	for _, tc := range []struct {
		name string
		ask  wire.Ask
		in   string
		out  string
		errs string
		end  wire.ErrandEnd
	}{
		{"streams and code", wire.Ask{Argv: wire.Texts{"sh", "-c", "cat; echo err >&2; exit 3"}, Ranks: []int{4}}, "in",
			"in", "err\n", wire.ErrandEnd{Code: 3}},
		{"a signal", wire.Ask{Argv: wire.Texts{"sh", "-c", "kill -9 $$"}}, "", "", "", wire.ErrandEnd{Code: 137}},
		{"no descriptors of the rank", wire.Ask{Argv: wire.Texts{"sh", "-c", "echo ${PMI_FD-none}"}}, "", "none\n", "",
			wire.ErrandEnd{}},
		{"an ended rank", wire.Ask{Argv: wire.Texts{"true"}, Ranks: []int{5}}, "", "", "",
			wire.ErrandEnd{Error: "rank 5 has ended, and its environment with it"}},
		{"no command", wire.Ask{}, "", "", "", wire.ErrandEnd{Error: "read the environment of rank 4: no command"}},
		{"much output", wire.Ask{Argv: wire.Texts{"sh", "-c", "head -c 3000000 /dev/zero"}}, "",
			strings.Repeat("\x00", 3000000), "", wire.ErrandEnd{}},
		{"a terminal", wire.Ask{Argv: wire.Texts{"sh", "-c", "stty size; echo $TERM"},
			Terminal: &wire.Terminal{Rows: 33, Columns: 111, Name: "kind"}}, "", "33 111\r\nkind\r\n", "",
			wire.ErrandEnd{}},
		{"the terminal of no rank", wire.Ask{Kind: wire.AskTerminal}, "", "", "",
			wire.ErrandEnd{Error: "a terminal is of one rank, and 0 were named"}},
		{"processes", wire.Ask{Kind: wire.AskProcesses}, "", fmt.Sprintf(`{"4":%d}`, os.Getpid()), "", wire.ErrandEnd{}},
		{"readings end with the ranks", wire.Ask{Kind: wire.AskWatch, Ranks: []int{5}, Every: time.Hour}, "", "", "",
			wire.ErrandEnd{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHost(t)
			tc.ask.ID = 1
			tc.ask.Kind = cmp.Or(tc.ask.Kind, wire.AskExec)
			h.ask(tc.ask)
			if tc.ask.Kind == wire.AskExec && tc.ask.Terminal == nil {
				for _, piece := range []string{tc.in, ""} {
					h.tell(wire.TellIn, []byte(piece))
				}
			}
			out, errs, end := h.result()
			check.That(t, out == tc.out && errs == tc.errs && end == tc.end, "%.100q, %q, %+v", out, errs, end)
		})
	}
}

// However long the text of an error is, the errand tells its end.
func TestLongErrorIsTold(t *testing.T) {
	h := newHost(t)
	h.ask(wire.Ask{ID: 1, Kind: wire.AskExec, Argv: wire.Texts{strings.Repeat("\x01", wire.MaxTell)}})
	_, _, end := h.result()
	check.That(t, len(end.Error) == maxError, "%d bytes: %.100q", len(end.Error), end.Error)
}

// A command that nobody waits for gets SIGHUP, and SIGKILL if it ignores that.
func TestDroppedCommandEnds(t *testing.T) {
	h := newHost(t)
	h.ask(wire.Ask{ID: 1, Kind: wire.AskExec,
		Argv: wire.Texts{"sh", "-c", `trap "" HUP; echo here; sleep 600; sleep 600`}})
	_, _, said := h.told()
	must.Equal(t, string(said), "here\n")
	h.tell(wire.TellEnd, nil)
	_, _, end := h.result()
	check.That(t, end.Code == 137, "%+v", end)
}

// A port whose process takes no connections holds up no errand that is dropped, and so no agent
// that ends.
func TestDroppedConnectionIsNotAwaited(t *testing.T) {
	fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(fd)
	must.OK(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must.OK(t, unix.Listen(fd, 0))
	port := must.Get(unix.Getsockname(fd))(t).(*unix.SockaddrInet4).Port
	full := must.Get(net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)))(t)
	defer full.Close()
	h := newHost(t)
	h.ask(wire.Ask{ID: 1, Kind: wire.AskDial, Port: port})
	time.Sleep(100 * time.Millisecond) // until it dials
	began := time.Now()
	h.tell(wire.TellEnd, nil)
	h.result()
	check.That(t, time.Since(began) < dialTime/2, "the errand ended after %v", time.Since(began))
}

// A terminal has both ends of its own, whatever has its number in /dev/pts.
func TestTerminalsOfOthersAreNotOpened(t *testing.T) {
	lab.NeedRoot(t)
	done := make(chan error)
	dir := t.TempDir()
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends, with its mounts
		done <- func() error {
			// /dev/pts has nothing of this /dev/ptmx, but terminals of others with its numbers.
			if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS),
				unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
				unix.Mount("devpts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666"),
				unix.Mount("devpts", dir, "devpts", 0, "newinstance,ptmxmode=0666"),
				unix.Mount(dir+"/ptmx", "/dev/ptmx", "", unix.MS_BIND, "")); err != nil {
				return err
			}
			other, err := os.OpenFile("/dev/pts/ptmx", os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer other.Close()
			if err := unix.IoctlSetPointerInt(int(other.Fd()), unix.TIOCSPTLCK, 0); err != nil {
				return err
			}
			if own, err := newTerminal(); err == nil {
				return errors.Join(errors.New("the terminal of another is opened"), own.slave.Close(),
					own.master.Close())
			}
			return errors.Join(unix.Unmount("/dev/ptmx", 0), unix.Unmount(dir, 0))
		}()
	}()
	check.OK(t, <-done)
}

// The terminal of a rank belongs to one user at a time. What the rank wrote before its end is read
// after it.
func TestTerminalOfARank(t *testing.T) {
	h := newHost(t)
	attach := wire.Ask{
		ID:       1,
		Kind:     wire.AskTerminal,
		Ranks:    []int{4},
		Terminal: &wire.Terminal{Rows: 33, Columns: 111},
	}
	h.ask(attach)
	_, _, end := h.result()
	check.That(t, end.Error == "rank 4 has no terminal of its own: a job has them with --panes", "%+v", end)
	slave := must.Get(h.server.OpenTerminal(4))(t)
	rank := exec.Command("sh", "-c", "read x; stty size; echo got $x $(tty | sed s/[0-9]*$//)")
	rank.Stdin = slave
	rank.Stdout = slave
	rank.Stderr = slave
	rank.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must.OK(t, rank.Start())
	slave.Close()
	h.ask(attach)
	h.tell(wire.TellIn, []byte("hi\n"))
	must.OK(t, rank.Wait())
	second := attach
	second.ID = 2
	h.ask(second)
	var out, refused string
	for ended := 0; ended < 2; { // the first ends with the rank, the second at once
		switch errand, kind, data := h.told(); {
		case kind == wire.TellOut:
			out += string(data)
		case kind == wire.TellEnd && errand == 2:
			refused = string(data)
			ended++
			h.server.RankEnded(4)
		case kind == wire.TellEnd:
			ended++
		}
	}
	h.server.Linger() // nothing is unread
	check.That(t, out == "hi\r\n33 111\r\ngot hi /dev/pts/\r\n" &&
		strings.Contains(refused, "the terminal of rank 4 is in use"), "%q, %s", out, refused)
}

func TestSignals(t *testing.T) {
	h := newHost(t)
	for _, tc := range []struct {
		ranks  []int
		signal int
		end    string
	}{{nil, 10, ""}, {[]int{4}, 9, ""}, {[]int{5}, 15, "rank 5 has ended"}, {nil, 65, "there is no signal 65"}} {
		h.ask(wire.Ask{
			ID:     1,
			Kind:   wire.AskSignal,
			Ranks:  tc.ranks,
			Signal: tc.signal,
		})
		_, _, end := h.result()
		check.That(t, end.Error == tc.end, "%+v: %+v", tc, end)
	}
	check.Equal(t, strings.Join(h.sent, ","), "4 10,5 10,4 9,5 15", "sent")
}

func TestBrokenErrands(t *testing.T) {
	broken := func(name string, errs ...error) {
		t.Helper()
		malformed := new(wire.FormatError)
		check.That(t, errors.As(errors.Join(errs...), &malformed), "%s: %v", name, errs)
	}
	h := newHost(t)
	broken("foreign rank", h.tryAsk(wire.Ask{ID: 1, Kind: wire.AskSignal, Ranks: []int{3}}))
	broken("number 0", h.tryAsk(wire.Ask{Kind: wire.AskSignal}))
	sleep := wire.Ask{ID: 1, Kind: wire.AskExec, Argv: wire.Texts{"sleep", "600"}}
	broken("same number", h.tryAsk(sleep), h.tryAsk(sleep))
	broken("an agent's kind", h.tryTell(wire.TellOut, nil))
	broken("a size that is none", h.tryTell(wire.TellSize, []byte("x")))
	broken("credit from nowhere", h.tryTell(wire.TellCredit, binary.BigEndian.AppendUint32(nil, wire.Window)))
	var errs []error
	for range 10 {
		errs = append(errs, h.tryTell(wire.TellIn, make([]byte, 60<<10)))
	}
	broken("too much input", errs...)
}
