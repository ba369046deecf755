package launcher

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/wire"
)

// disk is a file system of machines, perhaps of several. A file's text says what it
// does when it is run: "build NAME" is an agent of that build; anything else is a
// program that prints its text and exits with 1.
type disk struct {
	mu    sync.Mutex
	files map[string]string
	puts  int // uploads of any way
	sent  int // bytes of those by a shell
	// The marks of launches: of the one that is uploading, and of the last that has.
	taken, launch string
	noGzip        bool
}

func newDisk(files map[string]string) *disk {
	d := &disk{files: map[string]string{}}
	for name, text := range files {
		d.files[name] = text
	}
	return d
}

func (d *disk) read(path string) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, found := d.files[path]
	return text, found
}

// exitStatus is how a command failed.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }
func (e exitStatus) ExitCode() int { return int(e) }

// machine is a Host in memory.
type machine struct {
	disk  *disk
	noise string // what the login shell prints before anything else
	// serve is the agent's life after its hello was answered; nil: it waits for the
	// end of its stdin.
	serve func(a *fakeAgent) error
	// addresses, reached, boot and cores are of its agent's hello.
	addresses []wire.Address
	reached   string
	boot      string
	cores     int
	put       error // what Put fails with
	// lacks and partitioned are of its hello, too: it has GPUs and no gorun-gpu, and instances.
	lacks, partitioned bool

	mu     sync.Mutex
	ran    []string
	closed bool
	left   bool // stdin has ended for the last agent
}

// started is the command that startScript starts, if argv is that.
func started(argv []string) []string {
	if argv[0] == "/bin/sh" && argv[3] == "gorun-start" {
		return argv[4:]
	}
	return argv
}

func (m *machine) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	argv = started(argv)
	m.mu.Lock()
	m.ran = append(m.ran, argv[0])
	m.mu.Unlock()
	if _, err := io.WriteString(stdout, m.noise); err != nil {
		return err
	}
	if argv[0] == "/bin/sh" {
		return m.shell(argv[4:], stdin, stdout)
	}
	text, found := m.disk.read(argv[0])
	if !found {
		fmt.Fprintf(stderr, "sh: 1: %s: not found\n", argv[0])
		return exitStatus(127)
	}
	var build string
	if n, _ := fmt.Sscanf(text, "build %s", &build); n == 0 {
		fmt.Fprintln(stdout, text)
		return exitStatus(1)
	}
	return m.agent(ctx, argv[2], build, stdin, stdout)
}

// shell plays uploadScript.
func (m *machine) shell(args []string, stdin io.Reader, stdout io.Writer) error {
	dir, mark, file := args[0], args[1], args[2]
	d := m.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case m.put != nil || d.noGzip:
		return exitStatus(1)
	case d.taken == mark:
		return exitStatus(codeTaken)
	case d.launch == mark:
		return exitStatus(codeUploaded)
	}
	d.taken = mark
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
	d.taken = ""
	if err != nil || failed != nil || string(own) != "gorun itself" {
		return exitStatus(1)
	}
	d.files[cacheDir+"/"+dir+"/"+file], d.launch = "build one", mark
	d.puts++
	d.sent += len(packed)
	return nil
}

func (m *machine) agent(ctx context.Context, nonce, build string, stdin io.Reader, stdout io.Writer) error {
	// A command that is cut off does not read or write any more.
	in, inWriter := io.Pipe()
	go func() {
		_, err := io.Copy(inWriter, stdin)
		m.mu.Lock()
		m.left = true
		m.mu.Unlock()
		inWriter.CloseWithError(err)
	}()
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
	defer stop()
	defer in.CloseWithError(io.ErrClosedPipe)
	a := &fakeAgent{frames: wire.NewReader(in), out: wire.NewWriter(stdout), stdout: stdout, ctx: ctx}
	if _, err := stdout.Write(wire.Preamble(nonce)); err != nil {
		return err
	}
	hello := wire.Hello{Protocol: wire.Protocol, Build: build, PID: 1, Hostname: "machine", Reached: m.reached, Addresses: m.addresses, Boot: m.boot, Cores: m.cores,
		LacksGPUProgram: m.lacks, Partitioned: m.partitioned}
	if err := a.out.SendMessage(wire.TypeHello, hello); err != nil {
		return err
	}
	if _, err := a.expect(wire.TypeHello); err != nil {
		return nil // the launcher has no use for this build
	}
	if m.serve == nil {
		return a.untilEOF()
	}
	return m.serve(a)
}

func (m *machine) Put(_ context.Context, path string, mode fs.FileMode, r io.Reader) error {
	if m.put != nil {
		return m.put
	}
	got := sha256.New()
	if _, err := io.Copy(got, r); err != nil {
		return err
	}
	own, err := os.ReadFile("/proc/self/exe")
	if want := sha256.Sum256(own); err != nil || mode != 0o700 || !bytes.Equal(got.Sum(nil), want[:]) {
		return fmt.Errorf("not gorun itself with mode 0700, but mode %v: %v", mode, err)
	}
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	m.disk.files[path] = "build one"
	m.disk.puts++
	return nil
}

func (m *machine) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// fakeAgent is an agent's side of the wire.
type fakeAgent struct {
	ctx    context.Context
	frames *wire.Reader
	out    *wire.Writer
	stdout io.Writer // what out writes to
	job    wire.Job
	start  wire.Start
}

// expect reads frames up to the next of the wanted type.
func (a *fakeAgent) expect(want wire.Type) (wire.Frame, error) {
	for {
		f, err := a.frames.Next()
		if err != nil || f.Type == want {
			return f, err
		}
	}
}

func (a *fakeAgent) untilEOF() error {
	for {
		if _, err := a.frames.Next(); err != nil {
			return nil
		}
	}
}

// ready takes the job and waits for its start.
func (a *fakeAgent) ready() error {
	f, err := a.expect(wire.TypeJob)
	if err != nil {
		return err
	}
	if err := f.Decode(&a.job); err != nil {
		return err
	}
	if err := a.out.SendMessage(wire.TypeReady, wire.Ready{FreePort: 4000}); err != nil {
		return err
	}
	if f, err = a.expect(wire.TypeStart); err != nil {
		return err
	}
	return f.Decode(&a.start)
}

// print sends output of a rank, as much as its first credit covers.
func (a *fakeAgent) print(rank, fd int, text string) error {
	return a.out.Send(wire.TypeOutput, wire.OutputStream(rank, fd), []byte(text))
}

func (a *fakeAgent) exit(e wire.Exit) error { return a.out.SendMessage(wire.TypeExit, e) }

// finish ends every rank in the same way and leaves.
func (a *fakeAgent) finish(e wire.Exit) error {
	for _, r := range a.job.Ranks {
		e.Rank = r.Rank
		if err := a.exit(e); err != nil {
			return err
		}
	}
	if err := a.out.Send(wire.TypeDone, 0, nil); err != nil {
		return err
	}
	return a.untilEOF()
}

// executable is gorun itself, build one.
func executable() Executable {
	return Executable{Path: "/opt/gorun", Build: "one", Hash: func() (string, error) { return "0123456789abcdef0123", nil }}
}

// stagerOf is a stager whose gorun is smaller than this one.
func stagerOf(exe Executable) *stager {
	s := newStager(Options{Exe: exe, Trace: func(string, ...any) {}})
	s.uploads.packed = packText
	return s
}

func packText() ([]byte, error) { return pack(strings.NewReader("gorun itself")) }

const cachedPath = ".cache/gorun/0123456789abcdef/gorun"
