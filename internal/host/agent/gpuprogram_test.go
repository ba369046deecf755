package agent

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/memexec"
	"github.com/gorun/gorun/internal/host/seat"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/files"
	"github.com/gorun/gorun/internal/test/must"
)

// knowsNVLinks stands for gorun-gpu on the host of files.GPUs(0, 0, 0, 0): of its four GPUs 0 and 2
// have NVLinks, and 1 and 3.
const knowsNVLinks = `#!/bin/sh
echo '{"devices": [{"index": 0, "bus_id": "0000:07:00.0", "nvlinks": {"2": 4}}, {"index": 1, "bus_id": "0000:17:00.0", "nvlinks": {"3": 4}},
{"index": 2, "bus_id": "0000:27:00.0", "nvlinks": {"0": 4}}, {"index": 3, "bus_id": "0000:37:00.0", "nvlinks": {"1": 4}}]}'
`

// packed is a program as it is sent.
func packed(t testing.TB, program string) []byte {
	t.Helper()
	return must.Get(memexec.Pack([]byte(program)))(t)
}

// lay makes files of a root, which an agent in a process of its own can read.
func lay(t *testing.T, root fstest.MapFS) string {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, os.CopyFS(dir, root))
	return dir
}

// send sends a program as launchers do.
func (h *host) send(program []byte) {
	h.t.Helper()
	for piece := range slices.Chunk(program, wire.MaxData) {
		err := h.out.Send(wire.TypeProgram, 0, piece)
		check.That(h.t, err == nil, "send a program: %v: %s", err, h.said())
	}
}

// TestSentProgramDecidesTheAssignment checks that GPUs are assigned by NVLinks, which only
// gorun-gpu knows, and without them if it fails.
func TestSentProgramDecidesTheAssignment(t *testing.T) {
	t.Parallel()
	root := lay(t, files.GPUs(0, 0, 0, 0))
	near := "[[0 2] [1 3]]"
	far := "[[0 1] [2 3]]"
	long := "#!/bin/sh\n#" + rawNoise(300_000) + "\n"
	for name, tt := range map[string]struct {
		program []byte
		want    string
	}{
		"it knows NVLinks":  {packed(t, knowsNVLinks), near},
		"of many pieces":    {packed(t, long+knowsNVLinks[len("#!/bin/sh\n"):]), near},
		"nothing was sent":  {nil, far},
		"it crashes":        {packed(t, "#!/bin/sh\nkill -SEGV $$\n"), far},
		"it fails":          {packed(t, "#!/bin/sh\nexit 1\n"), far},
		"it talks nonsense": {packed(t, "#!/bin/sh\necho '{\"devices\": [{\"index\": 7}]}'\n"), far},
		"it is no program":  {packed(t, "\x7fELF"), far},
		"it is not packed":  {[]byte(knowsNVLinks), far},
		"it is cut off":     {packed(t, long)[:100_000], far},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHost(t, "AGENT_TEST_ROOT="+root, "PATH=/no/nvidia-smi")
			must.That(t, h.hello.LacksGPUProgram && !h.hello.Partitioned, "hello %+v", h.hello)
			job := script(2, "echo $CUDA_VISIBLE_DEVICES; ls -l /proc/self/fd | grep -c memfd:gorun-gpu")
			job.GPUs.PerRank = 2
			job.Env = wire.Texts{"PATH=/usr/bin:/bin"}
			h.answerHello()
			h.send(tt.program)
			h.tell(wire.TypeJob, job)
			h.until("an answer", func() bool { return h.ready != nil || h.refuse != nil })
			must.That(t, h.ready != nil, "refused: %+v", h.refuse)
			h.start()
			h.finish()
			got := "[["
			for i, p := range h.ready.Places {
				if got += strings.Join(p.GPUs, " "); i == 0 {
					got += "] ["
				}
			}
			got += "]]"
			check.That(t, got == tt.want, "ranks have %s, want %s (%s)", got, tt.want, h.ready.GPUs)
			for i, p := range h.ready.Places {
				if said := h.printed(i+2, 1); said != strings.Join(p.GPUs, ",")+"\n0\n" {
					t.Errorf("rank %d printed %q: its GPUs, and how many of the program's files it has", i+2, said)
				}
			}
		})
	}
}

// rawNoise is text that does not get shorter by much.
func rawNoise(n int) string {
	text := make([]byte, n)
	x := uint32(1)
	for i := range text {
		x = x*1664525 + 1013904223
		text[i] = 'a' + byte(x>>27)%26
	}
	return string(text)
}

// stream returns the frames that say sends.
func stream(say func(w *wire.Writer)) io.Reader {
	var all bytes.Buffer
	say(wire.NewWriter(&all))
	return &all
}

func TestFramesBeforeTheJob(t *testing.T) {
	job := func(w *wire.Writer) { _ = w.SendMessage(wire.TypeJob, wire.Job{ID: "j"}) }
	piece := func(w *wire.Writer, n int) { _ = w.Send(wire.TypeProgram, 0, make([]byte, n)) }
	for name, tt := range map[string]struct {
		lacks   bool
		say     func(w *wire.Writer)
		program int
		want    string // the error
	}{
		"a job alone": {true, job, 0, ""},
		"a program": {true, func(w *wire.Writer) {
			piece(w, wire.MaxData)
			_ = w.SendHeartbeat(1)
			piece(w, 7)
			job(w)
		}, wire.MaxData + 7, ""},
		"nobody asked for it": {false, func(w *wire.Writer) {
			piece(w, 7)
			job(w)
		}, 0, "malformed frame: unexpected piece of 7 bytes after 0"},
		"an empty piece": {true, func(w *wire.Writer) {
			piece(w, 0)
			job(w)
		}, 0, "malformed frame: unexpected piece of 0 bytes"},
		"no end": {true, func(w *wire.Writer) {
			for range memexec.MaxSize/wire.MaxData + 1 {
				piece(w, wire.MaxData)
			}
			job(w)
		}, 33488896, "malformed frame: unexpected piece of 65536 bytes after 33488896 of a program"},
		"the end within it": {true, func(w *wire.Writer) { piece(w, 7) }, 7, "wait for the launcher's job: EOF"},
		"another frame": {true, func(w *wire.Writer) {
			piece(w, 7)
			_ = w.SendMessage(wire.TypeStart, wire.Start{})
			job(w)
		}, 7, "malformed frame: start came where job was due"},
		"no job": {true, func(w *wire.Writer) {
			piece(w, 7)
			_ = w.Send(wire.TypeJob, 0, []byte("x"))
		}, 7, "malformed frame: job message: "},
	} {
		s := setup{host: &seat.Host{LacksGPUProgram: tt.lacks}, frames: wire.NewReader(stream(tt.say))}
		err := s.readJob(t.Context())
		if (err == nil) != (tt.want == "") || err == nil && s.job.ID != "j" || err != nil &&
			!strings.HasPrefix(err.Error(), tt.want) || len(s.sent) != tt.program {
			t.Errorf("%s: %+v, %d bytes, %v, want %q", name, s.job, len(s.sent), err, tt.want)
		}
	}
}

// FuzzReadJob checks that no launcher makes an agent keep more than a program and a job.
func FuzzReadJob(f *testing.F) {
	for _, say := range []func(w *wire.Writer){
		func(w *wire.Writer) {
			_ = w.Send(wire.TypeProgram, 0, []byte("x"))
			_ = w.Send(wire.TypeListGPUs, 0, nil)
			_ = w.SendMessage(wire.TypeJob, wire.Job{ID: "j"})
		},
		func(w *wire.Writer) { _ = w.SendHeartbeat(1); _ = w.Send(wire.TypeProgram, 0, nil) },
		func(w *wire.Writer) { _ = w.Send(wire.TypeFolder, 0, []byte("\x1f\x8b")) },
	} {
		text := must.Get(io.ReadAll(stream(say)))(f)
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Setenv("HOME", f.TempDir())
	f.Fuzz(func(t *testing.T, said []byte, lacks bool) {
		s := setup{
			host:   seat.Inspect(fstest.MapFS{}),
			out:    wire.NewWriter(io.Discard),
			frames: wire.NewReader(bytes.NewReader(said)),
		}
		s.host.LacksGPUProgram = lacks
		_ = s.readJob(t.Context())
		must.That(t, (lacks || s.sent == nil) && len(s.sent) < memexec.MaxSize, "%d bytes of a program", len(s.sent))
	})
}

// TestProgramsOfTheAgentAreNotReaped checks that the reaper of ranks does not take the exit of a
// program that the agent waits for. It tries many times, in a process of its own, because it reaps
// every child.
func TestProgramsOfTheAgentAreNotReaped(t *testing.T) {
	t.Parallel()
	said, err := exec.Command("/proc/self/exe", reapWord, "500").CombinedOutput()
	check.That(t, err == nil, "%v: %s", err, said)
}

// runBesideReaper runs programs as an agent does before its ranks, then leaves one to be reaped.
func runBesideReaper(times string) int {
	p := newProcesses(contain.Open(contain.Guard{}), nil)
	defer p.close()
	n, _ := strconv.Atoi(times)
	for i := range n {
		if err := exec.Command("/bin/true").Run(); err != nil {
			fmt.Printf("%v, the %dth time\n", err, i+1)
			return 1
		}
	}
	orphan := exec.Command("/bin/true")
	if err := orphan.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	p.beginReaping(nil)
	for end := time.Now().Add(timeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", orphan.Process.Pid)); err != nil {
			return 0
		}
	}
	fmt.Println("what is left of others is not reaped")
	return 1
}

// TestSlowProgram checks that the timeout applies to each frame, not to the whole program.
func TestSlowProgram(t *testing.T) {
	slow(t)
	h := startHost(t, "AGENT_TEST_ROOT="+lay(t, files.GPUs(0)), "PATH=/no/nvidia-smi")
	h.answerHello()
	program := packed(t, knowsNVLinks)
	for i := range 3 {
		h.send(program[i*len(program)/3 : (i+1)*len(program)/3])
		time.Sleep(helloTime * 6 / 10)
	}
	h.tell(wire.TypeJob, script(1, "exit"))
	h.until("ready", func() bool { return h.ready != nil })
}
