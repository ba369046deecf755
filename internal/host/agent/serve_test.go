package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/files"
	"github.com/gorun/gorun/internal/test/must"
)

func TestServeRunsAJob(t *testing.T) {
	t.Parallel()
	h := startHost(t, "SSH_CONNECTION=192.0.2.7 5022 192.0.2.1 22", "RANK=77", "KEPT=yes", "DROPPED=no",
		"SLURM_PROCID=1")
	check.That(t, h.hello.Protocol == wire.Protocol && h.hello.Build == testBuild && h.hello.Arch == runtime.GOARCH &&
		h.hello.Boot != "" && h.hello.Hostname != "" && h.hello.Caller == "192.0.2.7" &&
		h.hello.Reached == "192.0.2.1" && h.hello.PID != h.cmd.Process.Pid, "hello %+v", h.hello)
	dir := t.TempDir()
	job := script(2,
		`echo "$RANK of $WORLD_SIZE: $LOCAL_RANK/$LOCAL_WORLD_SIZE $GORUN_CROSS_RANK/$GORUN_CROSS_SIZE $HOROVOD_HOSTNAME $GORUN_ADDR $GORUN_ADDRS $MASTER_ADDR:$MASTER_PORT"
		echo "$KEPT,$DROPPED,$SLURM_PROCID,$NEW,$PYTHONUNBUFFERED,$PWD,$(pwd)" >&2; exit $RANK`)
	job.Programs[0].Wdir = wire.Text(dir)
	job.Drop = []string{"DROPPED"}
	job.Env = wire.Texts{"NEW=a=\xff b"}
	h.run(job)
	exits := h.finish()
	for rank := 2; rank <= 3; rank++ {
		want := fmt.Sprintf("%d of 4: %d/2 1/2 h1 192.0.2.1 192.0.2.1,10.1.1.1 192.0.2.1:4711\n", rank, rank-2)
		check.Equal(t, h.printed(rank, 1), want, "rank", rank, "says")
		want = fmt.Sprintf("yes,,,a=\xff b,1,%s,%s\n", dir, dir)
		check.Equal(t, h.printed(rank, 2), want, "rank", rank, "has")
		if e := exits[rank]; e.Code != rank || e.Signal != 0 || e.Stopped || e.At <= 0 {
			t.Errorf("rank %d ended as %+v", rank, e)
		}
	}
	check.That(t, h.ready.FreePort > 0, "ready %+v", h.ready)
}

func TestServeReportsHowRanksEnd(t *testing.T) {
	t.Parallel()
	h := running(t,
		script(5,
			`case $LOCAL_RANK in 0) exit 0;; 1) exit 255;; 2) kill -KILL $$;; 3) kill -TERM $$;; 4) exec /dev/null/x;; esac`))
	for rank, e := range h.finish() {
		want := []wire.Exit{{Code: 0}, {Code: 255}, {Signal: 9}, {Signal: 15}, {Code: 126}}[rank-2]
		if e.Code == 127 && rank == 6 {
			e.Code = 126 // shells differ in which of the two this is
		}
		check.That(t, e.MaxRSS >= 100<<10 && e.MaxRSS <= 1<<30 && e.CPU > 0 && e.CPU <= time.Minute,
			"rank %d used %d bytes and %v", rank, e.MaxRSS, e.CPU)
		want.Rank = rank
		want.At = e.At
		want.MaxRSS = e.MaxRSS
		want.CPU = e.CPU
		if rank > 2 {
			want.Program = "/bin/sh"
		}
		check.Equal(t, e, want)
	}
	check.That(t, len(h.exits) == 5, "%d ranks ended", len(h.exits))
}

func TestServeStopsReadingWithoutCredit(t *testing.T) {
	slow(t)
	for name, fd := range map[string]int{"1": wire.Stdout, "$GORUN_RESULT_FD": wire.Result} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHost(t)
			h.hoard = true
			job := script(2, `[ $LOCAL_RANK = 1 ] && { echo free; exit; }; head -c 1000000 /dev/zero >&`+name+
				`; echo end >&2`)
			job.Results = true
			h.run(job)
			stream := wire.OutputStream(2, fd)
			h.until("the whole window, and the other rank's line", func() bool {
				return wire.Window-h.owed[stream] <= wire.FrameCost && len(h.output[wire.OutputStream(3, 1)]) == 5
			})
			h.mu.Lock()
			beats := h.beats
			taken := len(h.output[stream])
			pauses := h.pauses[stream] // on a busy machine the rank may have made some by then
			h.mu.Unlock()
			h.until("two heartbeats more", func() bool { return h.beats >= beats+2 })
			h.mu.Lock()
			check.Equal(t, h.pauses[stream], pauses, "pauses of a rank without credit")
			h.mu.Unlock()
			if got := h.printed(2, 2); got != "" || len(h.printed(2, fd)) != taken {
				t.Errorf("the rank went on: %q, %d bytes", got, len(h.printed(2, fd)))
			}
			h.mu.Lock()
			h.hoard = false
			_ = h.payBack(stream)
			h.mu.Unlock()
			h.finish()
			if got := h.printed(2, fd); got != strings.Repeat("\x00", 1000000) || h.printed(2, 2) != "end\n" {
				t.Errorf("%d bytes in the end, and %q", len(got), h.printed(2, 2))
			}
		})
	}
}

// A rank has no descriptor more in a job without results, and in a container that would not inherit
// it.
func TestServeOpensNoResultUnasked(t *testing.T) {
	t.Parallel()
	const text = `[ ! -e /proc/$$/fd/4 ] || printf 'has 4, '; echo ${GORUN_RESULT_FD-none}`
	open := func(job wire.Job) string {
		h := running(t, job, "GORUN_RESULT_FD=77")
		h.finish()
		return h.printed(2, 1)
	}
	job := script(1, text)
	check.Equal(t, open(job), "none\n", "without results")
	job.Results = true
	check.Equal(t, open(job), "has 4, 4\n", "with results")
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\n"+text), 0o755))
	contained := jobOf(1, filepath.Join(dir, "docker"), "run")
	contained.Results = true
	check.Equal(t, open(contained), "none\n", "in a container")
}

func TestServeStops(t *testing.T) {
	t.Parallel()
	const ready = "echo ready; "
	for name, tc := range map[string]struct {
		text  string
		grace time.Duration
		want  wire.Exit
		least time.Duration
	}{
		"by TERM":              {ready + "exec sleep 1000", time.Minute, wire.Exit{Signal: 15}, 0},
		"by TERM to the group": {ready + "sleep 1000; exit 9", time.Minute, wire.Exit{Signal: 15}, 0},
		"in the rank's own way": {"trap 'exit 5' TERM; " + ready + "while :; do sleep 0.01; done",
			time.Minute, wire.Exit{Code: 5}, 0},
		"though it is stopped": {ready + "kill -STOP $$; exec sleep 1000", time.Minute, wire.Exit{Signal: 15}, 0},
		"by KILL after the grace": {"trap '' TERM; " + ready + "while :; do sleep 0.01; done",
			300 * time.Millisecond, wire.Exit{Signal: 9}, 300 * time.Millisecond},
		"by KILL, with what left the group": {"trap '' TERM; setsid sleep 1000 & " + ready +
			"while :; do sleep 0.01; done", 300 * time.Millisecond, wire.Exit{Signal: 9}, 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := running(t, script(2, tc.text))
			h.awaitOutput(2, 3)
			h.tell(wire.TypeStart, wire.Start{}) // a second one, which starts nothing
			began := time.Now()
			h.tell(wire.TypeStop, wire.Stop{Grace: tc.grace})
			for rank, e := range h.finish() {
				if want := (wire.Exit{
					Rank:    rank,
					Code:    tc.want.Code,
					Signal:  tc.want.Signal,
					Stopped: true,
					At:      e.At,
					MaxRSS:  e.MaxRSS,
					CPU:     e.CPU,
				}); e != want {
					t.Errorf("got %+v, want %+v", e, want)
				}
			}
			check.Equal(t, h.printed(2, 1)+h.printed(3, 1), "ready\nready\n", "printed")
			took := time.Since(began)
			check.That(t, took >= tc.least, "killed after %v, grace %v", took, tc.grace)
		})
	}
}

func TestServeStopsBeforeTheStart(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	h.greet(script(1, "exit 1"))
	h.until("ready", func() bool { return h.ready != nil })
	h.tell(wire.TypeStop, wire.Stop{})
	h.tell(wire.TypeStart, wire.Start{})
	exits := h.finish()
	check.That(t, len(exits) == 0, "ranks ran: %+v", exits)
}

// TestMissedSIGCHLD checks that agent and guard notice ends without the signal.
func TestMissedSIGCHLD(t *testing.T) {
	slow(t)
	h := running(t, script(1, "sleep 0.3; exit 5"), "AGENT_TEST_DEAF=1")
	e := h.finish()[2]
	check.That(t, e.Code == 5 && !e.Stopped, "%+v", e)
	h = running(t, script(1, "echo ready; exec sleep 1000"), "AGENT_TEST_DEAF=1")
	h.awaitOutput(2)
	kill(t, h.hello.PID, syscall.SIGKILL)
	h.awaitEnd()
	h.stop()
}

func TestServeCutsAPipeThatIsHeldOpen(t *testing.T) {
	slow(t)
	h := running(t, script(1, `(setsid sh -c 'sleep 0.3; echo late; sleep 1000' &); echo early`))
	h.until("the rank's end", func() bool { return len(h.exits) == 1 })
	began := time.Now()
	h.finish()
	check.Equal(t, h.printed(2, 1), "early\nlate\n", "printed")
	took := time.Since(began)
	check.That(t, took >= drainTime/2, "cut after %v, want %v", took, drainTime)
}

func TestServeCarriesWhatRanksAsk(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	h.run(jobOf(2, "/proc/self/exe", askWord, "GET /v1/job", "POST /v1/fence/f vRANK", "PUT /v1/kv/k value",
		"GET /v1/kv/k?wait=10s",
		`POST /v1/lost {"rank":0,"cause":"reset"}`, "GET /v1/abort", "POST /v1/fence/g x"))
	h.until("one fence of both ranks", func() bool { return len(h.fences) > 0 })
	if f := h.fences[0]; f.Name != "f" || string(f.Values[2]) != "v2" || string(f.Values[3]) != "v3" ||
		len(f.Values) != 2 {
		t.Errorf("fence %+v", f)
	}
	h.tell(wire.TypeFenced, wire.Fence{Name: "f", Values: map[int][]byte{0: []byte("v0"), 1: []byte("v1"),
		2: []byte("v2"), 3: []byte("v3"), 4: []byte("nobody's")}})
	h.until("both ranks' questions", func() bool { return len(h.gets) == 2 && len(h.puts) == 2 })
	g := h.gets[0]
	p := h.puts[0]
	check.That(t, p.Key == "k" && string(p.Value) == "value" && g.Key == "k" && g.Wait == 10*time.Second &&
		g.ID != h.gets[1].ID, "put %+v, gets %+v", p, h.gets)
	for _, g := range h.gets {
		h.tell(wire.TypeValue, wire.Value{ID: g.ID, Found: true, Value: []byte("value")})
	}
	h.tell(wire.TypeValue, wire.Value{ID: 999})
	h.until("both ranks' word of a loss", func() bool { return len(h.lost) == 2 })
	l := h.lost[0]
	check.That(t, l.Rank == 0 && l.Cause == "reset" && l.By+h.lost[1].By == 5, "lost %+v", h.lost)
	h.tell(wire.TypeAbort, wire.Abort{Rank: 0, Host: "h0", Cause: "first"})
	h.tell(wire.TypeAbort, wire.Abort{Rank: 1, Host: "h0", Cause: "second"})
	h.finish()
	abort := `{"rank":0,"host":"h0","cause":"first"}`
	want := fmt.Sprintf("200 {\"job\":\"job\",\"epoch\":0,\"rank\":2,\"size\":4,\"key\":\"%s=\"}\n200 "+
		"{\"values\":[\"djA=\",\"djE=\",\"djI=\",\"djM=\"]}\n204 \n200 value\n204 \n200 %s\n410 %s\n",
		strings.Repeat("A", 43), abort, abort)
	check.Equal(t, h.printed(2, 1), want, "rank 2 was answered")
}

func TestServeEndsWithoutASensibleJob(t *testing.T) {
	t.Parallel()
	garbage := func(h *host) { _, _ = h.stdin.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")) }
	hello := func(protocol int, build string) func(h *host) {
		return func(h *host) { h.tell(wire.TypeHello, wire.Hello{Protocol: protocol, Build: build}) }
	}
	for name, say := range map[string]func(h *host){
		"garbage for hello":     garbage,
		"another build":         hello(wire.Protocol, "other"),
		"another protocol":      hello(wire.Protocol+1, testBuild),
		"a job without a hello": func(h *host) { h.tell(wire.TypeJob, script(1, "exit")) },
		"garbage for a job":     func(h *host) { h.answerHello(); garbage(h) },
		"a job that is no JSON": func(h *host) { h.answerHello(); h.tell(wire.TypeJob, "x") },
		"the end before a job":  func(h *host) { h.stdin.Close() },
		"nothing":               func(h *host) { must.HaveTime(h.t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHost(t)
			say(h)
			h.awaitEnd()
			h.stop() // fails if anything is left
		})
	}
}

func TestServeReportsRanksThatCannotStart(t *testing.T) {
	t.Parallel()
	path := files.Make(t, map[string]string{"prog": "+\x7fELF and no more"}) + "/prog"
	h := running(t, jobOf(3, path))
	exits := h.finish()
	for rank := 2; rank < 5; rank++ {
		if e := exits[rank]; e.Code != 126 || e.Failed != path+" is cut off or damaged" ||
			e.Remedy == "" || e.Stopped {
			t.Errorf("rank %d: %+v", rank, e)
		}
	}
}

// TestRanksMayPrintAfterTheLauncher checks that ranks which print during their grace are not killed
// by SIGPIPE.
func TestRanksMayPrintAfterTheLauncher(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	dir := t.TempDir()
	job := script(1,
		`trap 'echo saving; sleep 0.2; echo saving; echo saved >checkpoint; exit 0' TERM; echo ready; while :; do sleep 0.05; done`)
	job.Programs[0].Wdir = wire.Text(dir)
	job.Grace = 5 * time.Second
	h.run(job)
	h.awaitOutput(2)
	h.stdin.Close()
	<-h.gone
	_, err := os.Stat(dir + "/checkpoint")
	check.OK(t, err, "killed by SIGPIPE within the grace")
}

// TestServeEndsWhileItsFramesAreStuck checks that the lease also ends an agent whose launcher reads
// nothing.
func TestServeEndsWhileItsFramesAreStuck(t *testing.T) {
	slow(t)
	h := startHost(t)
	still := make(chan struct{})
	defer close(still)
	h.mu.Lock()
	h.other = func(f wire.Frame) {
		if f.Type == wire.TypePut {
			<-still
		}
	}
	h.mu.Unlock()
	value := strings.Repeat("v", 60<<10) // two are more than a pipe holds
	job := jobOf(1, "/proc/self/exe", askWord, "GLOO-PUT /s/rank_0 "+value, "GLOO-PUT /s/rank_1 "+value,
		"GLOO-PUT /s/rank_2 "+value)
	job.Epoch = 1
	job.Elastic = &wire.Elastic{
		Slots:     1,
		LocalSize: 1,
		Nodes:     1,
		Lease:     time.Second,
		Parting:   100 * time.Millisecond,
	}
	h.run(job)
	must.Until(t, "the agent's last word", func() bool { return strings.Contains(h.said(), "no word from gorun") })
}

// TestServeHorovodsRendezvous checks that each rank has a rendezvous that reaches the others, and
// that scopes of one host need no launcher.
func TestServeHorovodsRendezvous(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	record := strings.Repeat("x", 136)
	h.run(jobOf(2, "/proc/self/exe", askWord,
		"GLOO-GET /local_h1/0", "GLOO-PUT /local_h1/LOCAL "+record, "GLOO-GET /local_h1/0", "GLOO-GET /local_h1/1",
		"GLOO-GET /local_h1/2",
		"GLOO-PUT /local_h1/1 y", "GLOO-DELETE /local_h1/LOCAL", "GLOO-GET /local_h1/0"))
	exits := h.finish()
	for rank := 2; rank <= 3; rank++ {
		want := "404 \n200 \n200 " + record + "\n200 " + record +
			"\n404 \n500 \n200 \n404 \n"
		if got := h.printed(rank, 1); got != want || exits[rank].Code != 0 {
			t.Errorf("rank %d: %+v, %q; want %q", rank, exits[rank], got, want)
		}
	}
}
