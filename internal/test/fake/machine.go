package fake

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

// Disk is a file system of machines, perhaps of several. A file's text says what it
// does when it is run: "build NAME" is an agent of that build; anything else is a
// program that prints its text and exits with 1.
type Disk struct {
	mu    sync.Mutex
	files map[string]string
	Puts  int // uploads of any way
	Sent  int // bytes of those by a shell
	// The marks of launches: of the one that is uploading, and of the last that has.
	Taken, launch string
	NoGzip        bool
}

func NewDisk(files map[string]string) *Disk {
	d := &Disk{files: map[string]string{}}
	for name, text := range files {
		d.files[name] = text
	}
	return d
}

func (d *Disk) read(path string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files[path]
}

func (d *Disk) has(path string) bool { return d.read(path) != "" }

// ExitStatus is how a command failed.
type ExitStatus int

func (e ExitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }
func (e ExitStatus) ExitCode() int { return int(e) }

// Machine is a Host in memory.
type Machine struct {
	Disk  *Disk
	Noise string // what the login shell prints before anything else
	// Forced is the end of every command, which the account does not run; nil: it runs commands.
	Forced *ExitStatus
	// Serve is the agent's life after its hello was answered; nil: it waits for the
	// end of its stdin.
	Serve func(a *Agent) error
	// addresses, reached, boot and cores are of its agent's hello.
	Addresses []wire.Address
	Reached   string
	Boot      string
	Cores     int
	PutErr    error // what Put fails with
	// lacks and partitioned are of its hello, too: it has GPUs and no gorun-gpu, and instances.
	Lacks, Partitioned bool
	// Foreign is what its uname says; "": a machine that runs the gorun of build one. Another runs
	// that of build two.
	Foreign string

	Mu     sync.Mutex
	Ran    []string
	Closed bool
	Left   bool // stdin has ended for the last agent
}

// Started returns the programs of which a command runs the first that is there, and their
// arguments: startScript has two.
func Started(argv []string) (programs, args []string) {
	if argv[0] != "/bin/sh" || argv[3] != "gorun-start" {
		return argv[:1], argv[1:]
	}
	return slices.DeleteFunc([]string{argv[4], argv[5]}, func(path string) bool { return path == "" }), argv[6:]
}

func (m *Machine) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	programs, args := Started(argv)
	m.Mu.Lock()
	m.Ran = append(m.Ran, strings.Join(programs, " or "))
	m.Mu.Unlock()
	if _, err := io.WriteString(stdout, m.Noise); err != nil {
		return err
	}
	switch {
	case m.Forced != nil && *m.Forced == 0:
		return nil
	case m.Forced != nil:
		return *m.Forced
	case programs[0] == "/bin/sh":
		return m.shell(argv[4:], stdin, stdout, stderr)
	}
	if argv[0] == "/bin/sh" {
		if _, err := stdout.Write(wire.StartMark(args[1])); err != nil {
			return err
		}
	}
	at := slices.IndexFunc(programs, m.Disk.has)
	if at < 0 {
		fmt.Fprintf(stderr, "%s: not found\n", programs[len(programs)-1])
		return ExitStatus(85)
	}
	text := m.Disk.read(programs[at])
	var build string
	if n, _ := fmt.Sscanf(text, "build %s", &build); n == 0 {
		fmt.Fprintln(stdout, text)
		return ExitStatus(1)
	}
	return m.agent(ctx, args[1], build, stdin, stdout)
}

// shell plays uploadScript.
func (m *Machine) shell(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	dir := args[0]
	mark := args[1]
	file := args[2]
	d := m.Disk
	d.mu.Lock()
	defer d.mu.Unlock()
	build := "one"
	switch {
	case m.Foreign != "" && args[4] != "":
		fmt.Fprintf(stderr, "uname says %s\n", m.Foreign)
		return ExitStatus(84)
	case m.PutErr != nil || d.NoGzip:
		return ExitStatus(1)
	case d.Taken == mark:
		return ExitStatus(82)
	case d.launch == mark:
		return ExitStatus(81)
	}
	d.Taken = mark
	d.mu.Unlock()
	fmt.Fprintf(stdout, "%s:go\n", mark)
	time.Sleep(time.Second) // the others come
	packed, err := io.ReadAll(stdin)
	zip, failed := gzip.NewReader(bytes.NewReader(packed))
	var own []byte
	if failed == nil {
		own, failed = io.ReadAll(zip)
	}
	d.mu.Lock()
	d.Taken = ""
	switch {
	case err == nil && failed == nil && string(own) == "gorun for others":
		build = "two"
	case err != nil || failed != nil || string(own) != "gorun itself":
		return ExitStatus(1)
	}
	d.files[".cache/gorun/"+dir+"/"+file] = "build " + build
	d.launch = mark
	d.Puts++
	d.Sent += len(packed)
	return nil
}

func (m *Machine) agent(ctx context.Context, nonce, build string, stdin io.Reader, stdout io.Writer) error {
	// A command that is cut off does not read or write any more.
	in, inWriter := io.Pipe()
	go func() {
		_, err := io.Copy(inWriter, stdin)
		m.Mu.Lock()
		m.Left = true
		m.Mu.Unlock()
		inWriter.CloseWithError(err)
	}()
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
	defer stop()
	defer in.CloseWithError(io.ErrClosedPipe)
	a := &Agent{
		Frames: wire.NewReader(in),
		Out:    wire.NewWriter(stdout),
		Stdout: stdout,
		Ctx:    ctx,
	}
	if _, err := stdout.Write(wire.Preamble(nonce)); err != nil {
		return err
	}
	hello := wire.Hello{
		Protocol:        wire.Protocol,
		Build:           build,
		PID:             1,
		Hostname:        "machine",
		Reached:         m.Reached,
		Addresses:       m.Addresses,
		Boot:            m.Boot,
		Cores:           m.Cores,
		LacksGPUProgram: m.Lacks,
		Partitioned:     m.Partitioned,
	}
	if err := a.Out.SendMessage(wire.TypeHello, hello); err != nil {
		return err
	}
	if _, err := a.Expect(wire.TypeHello); err != nil {
		return nil // the launcher has no use for this build
	}
	if m.Serve == nil {
		return a.UntilEOF()
	}
	return m.Serve(a)
}

func (m *Machine) Put(_ context.Context, path string, mode fs.FileMode, r io.Reader) error {
	if m.PutErr != nil {
		return m.PutErr
	}
	if mark, is := strings.CutSuffix(path, "/checked"); is {
		if !m.Disk.has(mark+"/gorun") || mode != 0o600 {
			return fmt.Errorf("the mark comes before gorun, or with mode %v", mode)
		}
		return nil
	}
	got := sha256.New()
	if _, err := io.Copy(got, r); err != nil {
		return err
	}
	own, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	text := sha256.Sum256([]byte("gorun itself"))
	running := sha256.Sum256(own) // tests may send the text for it
	if sum := got.Sum(nil); mode != 0o700 || !bytes.Equal(sum, text[:]) && !bytes.Equal(sum, running[:]) {
		return fmt.Errorf("not gorun itself with mode 0700, but something with mode %v", mode)
	}
	m.Disk.mu.Lock()
	defer m.Disk.mu.Unlock()
	m.Disk.files[path] = "build one"
	m.Disk.Puts++
	return nil
}

func (m *Machine) Close() error {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	m.Closed = true
	return nil
}

// Agent is an agent's side of the wire.
type Agent struct {
	Ctx    context.Context
	Frames *wire.Reader
	Out    *wire.Writer
	Stdout io.Writer // what out writes to
	Job    wire.Job
	Start  wire.Start
	Note   string // message for the user when it is ready
}

// Expect reads frames up to the next of the wanted type.
func (a *Agent) Expect(want wire.Type) (wire.Frame, error) {
	for {
		f, err := a.Frames.Next()
		if err != nil || f.Type == want {
			return f, err
		}
	}
}

func (a *Agent) UntilEOF() error {
	for {
		if _, err := a.Frames.Next(); err != nil {
			return nil
		}
	}
}

// Ready takes the job and waits for its start.
func (a *Agent) Ready() error {
	f, err := a.Expect(wire.TypeJob)
	if err != nil {
		return err
	}
	if err := f.Decode(&a.Job); err != nil {
		return err
	}
	if err := a.Out.SendMessage(wire.TypeReady, wire.Ready{FreePort: 4000, Note: a.Note}); err != nil {
		return err
	}
	if f, err = a.Expect(wire.TypeStart); err != nil {
		return err
	}
	return f.Decode(&a.Start)
}

// Print sends output of a rank, which its first credit must cover.
func (a *Agent) Print(rank, fd int, text string) error {
	return a.Out.Send(wire.TypeOutput, wire.OutputStream(rank, fd), []byte(text))
}

func (a *Agent) Exit(e wire.Exit) error { return a.Out.SendMessage(wire.TypeExit, e) }

// Finish ends every rank in the same way and leaves.
func (a *Agent) Finish(e wire.Exit) error {
	for _, r := range a.Job.Ranks {
		e.Rank = r.Rank
		if err := a.Exit(e); err != nil {
			return err
		}
	}
	if err := a.Out.Send(wire.TypeDone, 0, nil); err != nil {
		return err
	}
	return a.UntilEOF()
}

// CachedPath is where the cache of hosts has the executable of build one.
const CachedPath = ".cache/gorun/7692c3ad3540bb80/gorun"

// Join lets the agent's rank into the next epoch.
func (a *Agent) Join() error {
	_, err := a.JoinEpoch()
	return err
}

// JoinEpoch is Join, and returns the epoch.
func (a *Agent) JoinEpoch() (e wire.Epoch, err error) {
	if err := a.Out.SendMessage(wire.TypePark, wire.Park{}); err != nil {
		return e, err
	}
	f, err := a.Expect(wire.TypeEpoch)
	if err != nil {
		return e, err
	}
	if err := f.Decode(&e); err != nil {
		return e, err
	}
	return e, a.Out.SendMessage(wire.TypeJoined, wire.Joined{Epoch: e.Number})
}

// BeatOn beats until the agent's stdin ends, and returns how long that took.
func (a *Agent) BeatOn(limit time.Duration) time.Duration {
	began := time.Now()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = a.UntilEOF()
	}()
	for time.Since(began) < limit {
		_ = a.Out.SendHeartbeat(time.Since(began))
		select {
		case <-time.After(time.Second):
		case <-over:
			return time.Since(began)
		}
	}
	return time.Since(began)
}

// Live is an agent whose rank goes from epoch to epoch until the time is over, and then ends with
// 0.
func (a *Agent) Live(until time.Time) error {
	began := time.Now()
	epoch := 0
	over := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(over)
	end := func(e wire.Exit) error {
		e.Rank = a.Job.Ranks[0].Rank
		return errors.Join(a.Exit(e), a.Out.Send(wire.TypeDone, 0, nil))
	}
	ended := time.AfterFunc(time.Until(until), func() { _ = end(wire.Exit{}) })
	defer ended.Stop()
	wg.Go(func() {
		for {
			_ = a.Out.SendHeartbeat(time.Since(began))
			select {
			case <-time.After(time.Second):
			case <-over:
				return
			}
		}
	})
	if err := a.Out.SendMessage(wire.TypePark, wire.Park{}); err != nil {
		return err
	}
	for {
		f, err := a.Frames.Next()
		if err != nil {
			return nil
		}
		switch f.Type {
		case wire.TypeEpoch:
			var e wire.Epoch
			if err = f.Decode(&e); err == nil {
				epoch = e.Number
				err = a.Out.SendMessage(wire.TypeJoined, wire.Joined{Epoch: epoch})
			}
		case wire.TypeInterrupt, wire.TypeAbort:
			err = a.Out.SendMessage(wire.TypePark, wire.Park{Left: epoch})
		case wire.TypeStop:
			return end(wire.Exit{Signal: 15, Stopped: true})
		}
		if err != nil {
			return err
		}
	}
}

// Terminal collects what is written, and can be made to fail.
type Terminal struct {
	mu     sync.Mutex
	Text   bytes.Buffer
	Writes int
	Err    error
	slow   time.Duration // of the next write
}

// Block has the next write take its time.
func (w *Terminal) Block(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = d
}

func (w *Terminal) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	time.Sleep(w.slow)
	w.slow = 0
	w.Writes++
	if w.Err != nil {
		return 0, w.Err
	}
	return w.Text.Write(p)
}

func (w *Terminal) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Text.String()
}

// StuckTerminal takes nothing until it is let go.
type StuckTerminal struct {
	Terminal
	Release chan struct{}
}

func (w *StuckTerminal) Write(p []byte) (int, error) {
	<-w.Release
	return w.Terminal.Write(p)
}
