package ring_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// dutyEnv is the variable that makes TestFaultRank a rank of a job; it holds the duty of that rank.
const dutyEnv = "RING_TEST_DUTY"

// duty is what a rank does until that fails.
type duty struct {
	Form    string
	Way     string // plain, started or part
	N, Root int
	// Reach, from 1 to 1000, makes the rank kill itself in its fourth call, when that
	// many thousandths of the result have come.
	Reach int
	Wait  bool // with the fourth call until a line comes in
}

// dutyCalls is how many calls a rank makes before it says so.
const dutyCalls = 3

// TestFaultRank is not a test of its own: the others run it as a process.
func TestFaultRank(t *testing.T) {
	text := os.Getenv(dutyEnv)
	if text == "" {
		return
	}
	var d duty
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	c, err := ring.Init(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	at := time.Time{}
	err = d.work(c, os.Stdin, func() { fmt.Println("running") })
	at = time.Now()
	v := verdict{Rank: -2, At: at, Text: err.Error()}
	if peer := new(ring.PeerError); errors.As(err, &peer) {
		v.Rank = peer.Rank
	}
	if json.NewEncoder(os.Stdout).Encode(v) != nil {
		t.Fatal("nobody hears the verdict")
	}
}

// work does the duty until it fails, and returns that error.
func (d duty) work(c *ring.Comm, in io.Reader, running func()) error {
	f, err := specOf(d.Form)
	if err != nil {
		return err
	}
	do := synchronously
	switch d.Way {
	case "started":
		do = asynchronously
	case "part":
		part, err := ring.Split(ctx, c, 0, -c.Rank())
		if err != nil {
			return err
		}
		defer part.Close()
		c = part
	}
	for call := 0; ; call++ {
		if call == dutyCalls {
			running()
			if d.Wait {
				_, _ = in.Read(make([]byte, 1)) // its end will do as well
			}
		}
		s := position{n: d.N, root: d.Root}.at(c)
		room := heap
		if d.Reach > 0 && call == dutyCalls {
			room = outside
		}
		w := f.fill(s, room)
		if d.Reach > 0 && call == dutyCalls && w.Dst.Len > 0 {
			go dieAt(w.Dst, d.Reach)
		}
		if err := do(ctx, c, w); err != nil {
			return err
		}
		if err := f.check(s, w); err != nil {
			return err
		}
	}
}

// outside is memory that the race detector does not watch.
func outside(n int) []float32 {
	memory, err := unix.Mmap(-1, 0, 4*n+4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&memory[0])), n)
}

// dieAt kills this process when so many thousandths of dst have changed.
func dieAt(dst ring.Buffer, thousandths int) {
	place := (*uint32)(unsafe.Add(dst.Ptr, 4*((dst.Len-1)*thousandths/1000)))
	for before := atomic.LoadUint32(place); atomic.LoadUint32(place) == before; {
	}
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
}

// process is one rank that is a process.
type process struct {
	*exec.Cmd
	said *bufio.Scanner
	in   io.Closer
}

// begun starts cmd as a rank with a duty. It ends with the test.
func begun(t *testing.T, cmd *exec.Cmd, environ []string, d duty) *process {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(append(os.Environ(), environ...), dutyEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill() // it may be over
		_ = cmd.Wait()
	})
	return &process{cmd, bufio.NewScanner(out), in}
}

// rankCommand runs this test program as a rank.
func rankCommand() []string { return []string{os.Args[0], "-test.run=^TestFaultRank$"} }

// hears waits for the process to say word.
func (p *process) hears(word string) error {
	for p.said.Scan() {
		if p.said.Text() == word {
			return nil
		}
	}
	return fmt.Errorf("the rank ended before it was %s", word)
}

// verdict waits for the end of the rank's duty.
func (p *process) verdict() (v verdict, err error) {
	for p.said.Scan() {
		if strings.HasPrefix(p.said.Text(), "{") {
			return v, json.Unmarshal(p.said.Bytes(), &v)
		}
	}
	return v, errors.New("the rank ended without a verdict")
}

// startRank starts one rank of d on l.
func startRank(t *testing.T, l layout, d *ringtest.Job, rank int, what duty) *process {
	t.Helper()
	argv := rankCommand()
	return begun(t, exec.Command(argv[0], argv[1:]...), l.environ(d, rank), what)
}
