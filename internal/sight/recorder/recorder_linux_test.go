package recorder

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func TestMain(m *testing.M) {
	if os.Getenv("RECORDER_TEST") != "" {
		rank()
		return
	}
	os.Exit(m.Run())
}

// rank is a process that waits in a call, with a tensor submitted.
func rank() {
	r, err := New(3, 8, 2)
	if err != nil {
		panic(err)
	}
	r.Joined()
	world := r.Lane("", 8)
	part := r.Lane("/1.0", 4)
	for i := range uint64(100) {
		world.Enter(4, i+1, 4096, -1, -1, "layer.weight", 2)
		world.Leave(false)
	}
	part.Enter(1, 1, 0, -1, -1, "", 0)
	part.Leave(false)
	part.Close()
	done := r.Submitted("", 3, 16, "metric")
	r.Submitted("", 4, 1<<20, "late.bias")
	r.Done(done)
	world.Enter(10, 100, 8, 5, -1, "", 0)
	fmt.Println("ready")
	_, _ = io.ReadAll(os.Stdin)
}

func TestAnotherProcessReadsWhatARankDoes(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "RECORDER_TEST=1")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	must.OK(t, cmd.Start())
	defer func() { in.Close(); _ = cmd.Wait() }()
	must.Get(fmt.Fscanln(out, new(string)))(t)
	r := must.Get(Open(cmd.Process.Pid))(t)
	defer r.Close()
	before := must.Get(r.Read())(t)
	time.Sleep(20 * time.Millisecond)
	s := must.Get(r.Read())(t)
	check.That(t, s.Rank == 3 && s.Size == 8 && s.Epoch == 2 && s.Joined && s.Calls == 101 && s.Bytes == 100*4096 &&
		s.Time > 0, "%+v", s)
	totals, err := r.Totals()
	check.That(t, err == nil && totals.Calls == s.Calls && totals.Bytes == s.Bytes &&
		totals.Time >= s.Time+20*time.Millisecond && totals.Pending >= 20*time.Millisecond && r.Published(),
		"%+v, %v", totals, err)
	must.That(t, len(s.Comms) == 1 && s.Comms[0].Size == 8 && len(s.Comms[0].Calls) == history,
		"communicators: %+v", s.Comms)
	c := s.Comms[0].Current()
	must.That(t, c != nil && c.Number == 100 && c.To == 5 && c.From == -1 && KindName(c.Kind) == "message",
		"current call: %+v", c)
	longer := c.Took - before.Comms[0].Current().Took
	check.That(t, longer >= 15*time.Millisecond, "20 ms later the call has gone on for %v longer", longer)
	last := s.Comms[0].Calls[history-2]
	check.That(t, last.Over && last.Name == "layer.weight" && last.More == 2 && last.Number == 100,
		"last call: %+v", last)
	stacks, err := r.Goroutines(10 * time.Second)
	check.That(t, err == nil && strings.Contains(stacks, "recorder.rank("), "goroutines: %v, %s", err, stacks)
	check.That(t, len(s.Tensors) == 1 && s.Tensors[0].Name == "late.bias" && s.Pending == 1, "tensors: %+v", s.Tensors)
}

// Another user finds no record, although the memory has no mode of its own.
func TestAnotherUserReadsNoRecord(t *testing.T) {
	if os.Getuid() != 0 {
		lab.Skip(t, "needs root, to become another user")
	}
	r := must.Get(New(0, 1, 0))(t)
	defer r.Close()
	fd := r.file.Fd()
	cmd := exec.Command("cat", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	check.That(t, err != nil && strings.Contains(string(out), "Permission denied"), "%v: %q", err, out)
}

func TestProcessWithoutARecord(t *testing.T) {
	check.Error(Open(os.Getpid())).Is(t, ErrNone)
}

func TestClosedRecordIsGone(t *testing.T) {
	r := must.Get(New(0, 1, 0))(t)
	l := r.Lane("", 1)
	reader := must.Get(Open(os.Getpid()))(t)
	r.Close()
	check.That(t, !reader.Published(), "a closed record is published")
	reader.Close() // this process would publish it
	l.Enter(1, 1, 0, -1, -1, "", 0)
	l.Leave(false)
	check.Error(Open(os.Getpid())).Is(t, ErrNone)
}

// Brief calls are recorded with the mean of those that are measured, and all others with their own
// times.
func TestBriefCallsHaveAMeanTime(t *testing.T) {
	r := must.Get(New(0, 1, 0))(t)
	defer r.Close()
	l := r.Lane("", 1)
	for i := range uint64(1000) {
		l.Enter(4, i+1, 8, -1, -1, "", 0)
		for began := time.Now(); time.Since(began) < time.Microsecond; { // an empty call can end within one tick
		}
		l.Leave(true)
	}
	l.Enter(4, 1001, 8, -1, -1, "", 0)
	time.Sleep(20 * time.Millisecond)
	l.Leave(false)
	reader := must.Get(Open(os.Getpid()))(t)
	defer reader.Close()
	s, err := reader.Read()
	must.That(t, err == nil && s.Calls == 1001 && len(s.Comms) == 1, "%+v, %v", s, err)
	if last := s.Comms[0].Calls[history-1]; !last.Over || last.Took < 15*time.Millisecond || s.Time < last.Took {
		t.Errorf("the last call: %+v; all took %v", last, s.Time)
	}
	for _, c := range s.Comms[0].Calls[:history-1] {
		check.That(t, c.Over && c.Took > 0, "a brief call: %+v", c)
	}
}

func TestCallAllocatesNothing(t *testing.T) {
	r := must.Get(New(0, 1, 0))(t)
	defer r.Close()
	l := r.Lane("", 1)
	check.Equal(t, testing.AllocsPerRun(100, func() { l.Enter(4, 1, 4, -1, -1, "name", 0); l.Leave(false) }), 0,
		"allocations")
}

// There are as many tensors as there is memory, and the record has room for 64.
func TestMoreTensorsThanRoom(t *testing.T) {
	r := must.Get(New(0, 1, 0))(t)
	defer r.Close()
	var slots []int
	for range 3 * tensors {
		slots = append(slots, r.Submitted("", 4, 1, "t"))
	}
	read := func() Snapshot {
		reader := must.Get(Open(os.Getpid()))(t)
		defer reader.Close()
		return must.Get(reader.Read())(t)
	}
	if s := read(); s.Pending != 3*tensors || len(s.Tensors) != tensors {
		t.Errorf("%d tensors, %d shown", s.Pending, len(s.Tensors))
	}
	for _, slot := range slots {
		r.Done(slot)
	}
	if s := read(); s.Pending != 0 || len(s.Tensors) != 0 {
		t.Errorf("%d tensors, %d shown after the end of all", s.Pending, len(s.Tensors))
	}
}
