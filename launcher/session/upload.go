package session

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/buildid"
	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/prose"
)

// leaderTime is how long a host waits for one with the same home directory to upload, if no upload
// is known to be active.
const leaderTime = 15 * time.Second

// meterPart is how many bytes of an upload a meter hears of at once.
const meterPart = 64 << 10

// Exit codes of upload.sh when it has uploaded nothing.
const (
	codeUploaded = 81 // another host of this launch has put it there
	codeTaken    = 82 // another host of this launch is uploading
	codeForeign  = 84 // the executable is for other machines
	codeFull     = 90 // plus the index of the folder that could not hold it
)

// machines returns uname's names of machines that run this executable, or "" for any. A kernel may
// report another machine to 32-bit programs.
func machines(goarch string) string {
	switch goarch {
	case "amd64":
		return "x86_64 amd64 i686 i586 i486 i386"
	case "arm64":
		return "aarch64 arm64 armv8l armv7l"
	case "ppc64le", "s390x", "riscv64":
		return goarch
	}
	return ""
}

// foreignError reports a host with another architecture.
type foreignError struct{ machine string } // uname's name of it

func (e *foreignError) Error() string {
	return fmt.Sprintf("upload gorun: this gorun is for %s/%s, and the host is another machine: uname says %s",
		runtime.GOOS, runtime.GOARCH, e.machine)
}

func (e *foreignError) Hint() string { return archHint() }

// noOtherError is a foreignError for whose machine there is no gorun.
type noOtherError struct {
	*foreignError
	cause error
}

func (e *noOtherError) Error() string { return e.foreignError.Error() + ": " + e.cause.Error() }
func (e *noOtherError) Unwrap() error { return e.cause }

func (e *noOtherError) Hint() string {
	var inner interface{ Hint() string }
	if errors.As(e.cause, &inner) {
		return inner.Hint()
	}
	return e.foreignError.Hint()
}

// archHint is for hosts that cannot run this executable.
func archHint() string {
	return "hosts may be linux/amd64 or linux/arm64 machines; gorun for the other kind is gorun-linux-ARCH.gz, in " +
		"gorun's directory (make agents)"
}

// uploads puts the executable where hosts lack it. Safe for concurrent use.
type uploads struct {
	trace  func(format string, args ...any)
	meter  relay.Meter
	mark   string                 // mark of this launch
	runs   string                 // uname's names of machines that run the executable; "": any
	packed func() ([]byte, error) // gzip of the executable
	hash   func() (string, error) // SHA-256 of the executable

	mu     sync.Mutex
	active int           // hosts that are uploading
	over   chan struct{} // closed when the next of them has finished
}

func newUploads(exe Executable, trace func(string, ...any), meter relay.Meter) *uploads {
	u := &uploads{
		trace:  trace,
		meter:  meter,
		mark:   rand.Text(),
		packed: exe.Packed,
		hash:   exe.Hash,
		over:   make(chan struct{}),
	}
	switch {
	case exe.Build == "":
		u.runs = "none"
		u.packed = func() ([]byte, error) { return nil, errors.New("find gorun for the host: its uname is empty") }
		u.hash = func() (string, error) { return "", nil }
	case exe.Packed == nil:
		u.runs = machines(runtime.GOARCH)
	}
	if u.packed == nil {
		u.packed = sync.OnceValues(packSelf)
	}
	return u
}

// packSelf compresses the running executable. It does not use its path, which may have a newer
// build.
func packSelf() ([]byte, error) { return packFile("/proc/self/exe") }

// Level 4 of gzip takes a third longer than level 1 and makes gorun 8 % smaller; level 6 takes
// twice as long for 2 % more.
const (
	packLevel = 4
	packPart  = 2 << 20 // bytes
)

// pack compresses size bytes by gzip. Parts of it, which are side by side members of the result,
// are compressed at once.
func pack(from io.ReaderAt, size int64) ([]byte, error) {
	parts := make([][]byte, (size+packPart-1)/packPart)
	errs := make([]error, len(parts))
	var packing sync.WaitGroup
	for i := range parts {
		packing.Go(func() {
			part := bytes.NewBuffer(make([]byte, 0, packPart/2))
			zip, _ := gzip.NewWriterLevel(part, packLevel)
			_, err := io.Copy(zip, io.NewSectionReader(from, int64(i)*packPart, packPart))
			errs[i] = errors.Join(err, zip.Close())
			parts[i] = part.Bytes()
		})
	}
	packing.Wait()
	return slices.Concat(parts...), errors.Join(errs...)
}

// upload writes the executable to name below the home directory of conn, or to an alternative
// folder, or waits for another host that uploads to the same home. Without gzip or a usual shell it
// uses conn.Put.
func (u *uploads) upload(ctx context.Context, conn Host, name string) error {
	var skip int
	var why []string // folders that failed
	for {
		over := u.next()
		said, err := u.byShell(ctx, conn, name, skip)
		code, failed := exitCode(err)
		switch {
		case err == nil, failed && code == codeUploaded:
			return nil
		case !failed || ctx.Err() != nil:
			return fmt.Errorf("upload gorun to ~/%s: %w", filepath.ToSlash(name), err)
		case code == codeUnsafe:
			return fmt.Errorf("upload gorun: no directory will do, neither ~/.cache, $XDG_RUNTIME_DIR nor /var/tmp; "+
				"make one of them writable by you alone: %s",
				strings.Join(append(why, said), "; "))
		case code == codeForeign:
			return &foreignError{machineIn(said)}
		case code > codeFull+skip && code < codeFull+10: // a folder after those that have failed
			skip = code - codeFull
			why = append(why, said)
			continue
		case code != codeTaken:
			return u.put(ctx, conn, name)
		}
		select {
		case <-over:
		case <-time.After(leaderTime):
			if !u.busy() {
				return u.put(ctx, conn, name) // the host that began has failed
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// machineIn returns uname's machine name from the output of upload.sh.
func machineIn(said string) string {
	_, machine, _ := strings.Cut(said, "uname says ")
	machine, _, _ = strings.Cut(machine, " ")
	return strings.TrimSpace(machine)
}

// exitCode returns the exit status of a command, if it has one.
func exitCode(err error) (code int, ended bool) {
	var status interface{ ExitCode() int }
	if !errors.As(err, &status) {
		return 0, false
	}
	return status.ExitCode(), true
}

// next returns a channel that is closed when the next upload, active now or later, has finished.
func (u *uploads) next() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.over
}

func (u *uploads) busy() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.active > 0
}

// begin and end enclose an upload.
func (u *uploads) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.active++
}

func (u *uploads) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.active--
	close(u.over)
	u.over = make(chan struct{})
}

// byShell runs the script and returns its stderr. It sends the executable only if the script asks
// for it.
func (u *uploads) byShell(ctx context.Context, conn Host, name string, skip int) (said string, err error) {
	hash, err := u.hash()
	if err != nil {
		return "", err
	}
	stderr := prose.NewTail(stderrSize)
	in, feed := io.Pipe()
	asked := &cue{word: []byte(u.mark + ":go"), heard: make(chan struct{})}
	ended := make(chan struct{})
	size := 0
	var feeding sync.WaitGroup
	feeding.Go(func() {
		select {
		case <-asked.heard:
		case <-ended:
			return
		}
		u.begin()
		packed, err := u.packed()
		if err == nil {
			size, err = u.feed(feed, packed)
		}
		feed.CloseWithError(err)
	})
	dir, file := path.Split(name)
	base := strings.TrimPrefix(path.Clean(dir), cacheDir+"/")
	err = conn.Run(ctx, []string{"/bin/sh", "-c", uploadScript(), "gorun-put", base, u.mark, file, strconv.Itoa(skip),
		u.runs, hash}, in, asked, stderr)
	close(ended)
	in.CloseWithError(io.ErrClosedPipe)
	feeding.Wait()
	if asked.found {
		u.end()
	}
	if err == nil {
		u.trace("uploaded gorun to ~/%s: %d bytes", name, size)
	}
	return stderr.String(), err
}

// feed writes a compressed executable, and tells the meter of its parts.
func (u *uploads) feed(to io.Writer, packed []byte) (size int, err error) {
	u.meter.Expect(int64(len(packed)))
	for part := range slices.Chunk(packed, meterPart) {
		n, err := to.Write(part)
		size += n
		u.meter.Add(int64(n))
		if err != nil {
			u.meter.Expect(int64(size - len(packed)))
			return size, err
		}
	}
	return size, nil
}

// put uploads as conn does it.
func (u *uploads) put(ctx context.Context, conn Host, name string) error {
	packed, err := u.packed()
	if err != nil {
		return err
	}
	hash, err := u.hash()
	if err != nil {
		return err
	}
	program, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("unpack gorun: %w", err)
	}
	err = conn.Put(ctx, name, 0o700, program)
	if err == nil {
		err = conn.Put(ctx, path.Join(path.Dir(name), "checked"), 0o600, strings.NewReader(u.mark+" "+hash+"\n"))
	}
	if err != nil {
		return fmt.Errorf("upload gorun to ~/%s: %w", filepath.ToSlash(name), err)
	}
	u.trace("uploaded gorun to ~/%s", name)
	return nil
}

// cue waits for a word in the bytes written to it.
type cue struct {
	word  []byte
	heard chan struct{} // closed when the word came
	last  []byte
	found bool
}

func (c *cue) Write(p []byte) (int, error) {
	if !c.found {
		c.last = append(c.last, p...)
		if c.found = bytes.Contains(c.last, c.word); c.found {
			close(c.heard)
		}
		c.last = c.last[max(0, len(c.last)-len(c.word)):]
	}
	return len(p), nil
}

// Installed describes a gorun that is installed at path, for a program that starts jobs and is not
// gorun itself. It must be of the same version as this package.
func Installed(path string) (Executable, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Executable{}, fmt.Errorf("find gorun: %w", err)
	}
	build, err := buildid.Of(path)
	if err != nil {
		return Executable{}, fmt.Errorf("read gorun: %w", err)
	}
	return Executable{
		Path:   path,
		Build:  build,
		Hash:   sync.OnceValues(func() (string, error) { return buildid.Hash(path) }),
		Packed: sync.OnceValues(func() ([]byte, error) { return packFile(path) }),
	}, nil
}

func packFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read gorun: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read gorun: %w", err)
	}
	return pack(file, info.Size())
}
