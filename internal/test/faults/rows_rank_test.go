package faults

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// The goals are a third of these bounds, or less: other tests may share the machine.
const soon = 1500 * time.Millisecond

// dueTo expects that a job ends soon, with a cause and one of the codes.
func dueTo(cause string, codes ...int) Expect {
	return Expect{
		Codes: codes,
		Cause: cause,
		End:   soon,
		Clean: soon,
	}
}

// ups waits until n ranks have printed "up".
func (b *harness) ups(j *Job, n int) {
	b.t.Helper()
	b.await(j, "the ranks", func() bool { return strings.Count(j.Out.String(), "up\n") == n })
}

// shell starts four ranks on two hosts that run a script.
func (b *harness) shell(flags []string, script string) (*Job, *Watch) {
	b.t.Helper()
	args := append([]string{"-np", "4", "-H", "f1:2,f2:2", "--prefix", "none"}, flags...)
	return b.gorun(append(args, "sh", "-c", script)...)
}

// Rows A1 to A5 and A7: faults of ranks.
func TestRankRows(t *testing.T) {
	b := namespaces(t, 2)
	b.row("A1 a rank exits", func(t *testing.T, b *harness) { // goal 0.5 s
		for _, culprit := range []string{"0", "1", "2", "3"} {
			j, w := b.shell(nil, `echo up; exec sleep 30$RANK`)
			b.ups(j, 4)
			victim := w.find(j, "sleep 30"+culprit, "RANK")
			at := time.Now()
			_ = syscall.Kill(victim, syscall.SIGKILL)
			b.judge(w, j, at, dueTo("rank "+culprit+" on f[12] was killed by signal 9", 137))
		}
		j, w := b.shell(nil, `echo up; [ $RANK != 2 ] || { sleep 0.5; exit 3; }; exec sleep 300`)
		b.ups(j, 4)
		b.judge(w, j, time.Now().Add(500*time.Millisecond), dueTo("rank 2 on f2 exited with code 3", 3))
	})
	b.row("A2 two ranks fail at once", func(t *testing.T, b *harness) {
		j, w := b.shell(nil, `trap 'exit $((3 + RANK))' USR1; echo up; while :; do sleep .02; done`)
		b.ups(j, 4)
		at := b.signal(j, syscall.SIGUSR1)
		v := b.judge(w, j, at, dueTo(`rank \d on f\d exited with code`, 3, 4, 5, 6))
		want := "exited with code " + string(rune('0'+v.Exit))
		check.That(t, strings.Contains(v.Cause, want), "exit code %d, but %q", v.Exit, v.Cause)
		// Ranks that lose the dead one fail as well, but are not the cause.
		j, w = b.gorun("-np", "4", "-H", "f1:2,f2:2", "--prefix", "none", binary("rank"), "-reduce")
		b.await(j, "sums", func() bool { return strings.Count(j.Out.String(), " sum ") > 20 })
		at = time.Now()
		_ = syscall.Kill(w.find(j, binary("rank"), "RANK=2"), syscall.SIGKILL)
		b.judge(w, j, at, Expect{
			Codes: []int{137},
			Cause: "rank 2 on f2 was killed by signal 9",
			End:   soon,
			Clean: soon,
			Ranks: 4,
		})
	})
	b.row("A3 a rank crashes", func(t *testing.T, b *harness) {
		for signal, code := range map[string]int{"SEGV": 139, "ABRT": 134, "ILL": 132} {
			j, w := b.shell(nil, `ulimit -c 0; [ $RANK != 1 ] || { sleep 0.2; kill -`+signal+` $$; }; exec sleep 300`)
			<-j.Ended()
			b.judge(w, j, time.Now(), dueTo(`rank 1 on f1 was killed by signal \d+ \(SIG`+signal, code))
		}
	})
	b.row("A4 TERM is ignored, or takes a while", func(t *testing.T, b *harness) { // goal: the grace and 0.5 s
		j, w := b.shell([]string{"--grace", "2"}, `case $RANK in
			1) echo up; sleep 0.3; exit 3;;
			2) trap 'sleep 1; echo saved; exit 0' TERM;;
			*) trap "" TERM;;
			esac; echo up; while :; do sleep .05; done`)
		b.ups(j, 4)
		v := b.judge(w, j, time.Now().Add(300*time.Millisecond), Expect{
			Codes: []int{3},
			Cause: "rank 1 on f1 exited with code 3",
			End:   2*time.Second + soon,
			Clean: 2*time.Second + soon,
		})
		check.That(t, v.EndMS >= 1700 && strings.Contains(j.Out.String(), "saved"),
			"ended after %d ms, less than the grace, or nothing was saved: %q", v.EndMS, &j.Out)
	})
	b.row("A5 a stopped rank is ended", func(t *testing.T, b *harness) {
		j, w := b.shell(nil, `echo up; exec sleep 30$RANK`)
		b.ups(j, 4)
		at := time.Now()
		for _, word := range []string{"sleep 300", "sleep 303"} {
			_ = syscall.Kill(w.find(j, word, "RANK"), syscall.SIGSTOP)
		}
		_ = syscall.Kill(w.find(j, "sleep 301", "RANK"), syscall.SIGKILL)
		b.judge(w, j, at, dueTo("rank 1 on f1 was killed by signal 9", 137))
	})
	b.row("A7 a child keeps the output open", func(t *testing.T, b *harness) { // goal 2 s
		j, w := b.shell(nil, `echo up; sleep 300 & exit 0`)
		b.ups(j, 4)
		at := time.Now()
		b.judge(w, j, at, Expect{Codes: []int{0}, End: 6 * time.Second, Clean: 6 * time.Second})
		check.Equal(t, strings.Count(j.Out.String(), "up\n"), 4, "of 4 lines came")
	})
}

// find waits for a process of the job whose command line contains word and whose environment has an
// entry with prefix entry.
func (w *Watch) find(j *Job, word, entry string) (found int) {
	found = 1 << 22 // nobody's
	j.Await(10*time.Second, func() bool {
		for _, pid := range j.Processes(word) {
			env, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
			for _, e := range strings.Split(string(env), "\x00") {
				if strings.HasPrefix(e, entry) && !strings.Contains(command(pid), "__") {
					found = pid
					return true
				}
			}
		}
		return false
	})
	return found
}

// A12: a program that cannot be executed is reported with its host, and nothing starts.
func TestUnexecutableProgramIsNamed(t *testing.T) {
	b := namespaces(t, 2)
	dir := b.c.Dir
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		b.must(os.WriteFile(path, []byte(text), mode))
		return path
	}
	busy := write("busy", "", 0o755)
	f := must.Get(os.OpenFile(busy, os.O_WRONLY, 0))(t)
	defer f.Close()
	program := must.Get(os.ReadFile(binary("hello")))(t)
	must.Get(f.Write(program))(t)
	for _, tt := range []struct {
		path  string
		codes []int
		says  string
	}{
		{filepath.Join(dir, "missing"), []int{127}, `f1, f2: .*missing|f1: .*missing`},
		{write("plain", "text", 0o644), []int{126}, `f[12].*plain`},
		{write("shebang", "#!/no/such/interpreter\n", 0o755), []int{127}, `f[12].*/no/such/interpreter`},
		{busy, []int{126}, `f[12].*busy`},
		{write("nonsense", "\x00\x01\x02", 0o755), []int{126}, `f[12].*nonsense`},
	} {
		at := time.Now()
		j, w := b.gorun("-np", "4", "-H", "f1:2,f2:2", tt.path)
		<-j.Ended()
		b.judge(w, j, at, Expect{
			Codes: tt.codes,
			Cause: tt.says,
			Also:  `f[12]`,
			End:   20 * time.Second,
			Clean: 20 * time.Second,
		})
		check.That(t, j.Out.String() == "", "%s: something ran: %q", tt.path, &j.Out)
	}
}

// A14: processes beside gorun, in its session and process group, are not the job's. Local ranks are
// gorun's own children.
func TestProcessesBesideGorunSurvive(t *testing.T) {
	script := `sleep 300 & neighbour=$!
		"$0" -np 2 sh -c '[ $RANK = 0 ] || exit 3; exec sleep 300'; echo code $?
		"$0" -np 2 sleep 300 & victim=$!; sleep 0.5; kill -9 $victim; wait $victim; sleep 1
		kill $neighbour && echo neighbour lived`
	b := newHarness(t, nil)
	j, w := b.run("sh", "-c", script, binary("gorun"))
	<-j.Ended()
	b.judge(w, j, time.Now(), Expect{Codes: []int{0}, End: soon, Clean: 10 * time.Second})
	out := j.Out.String()
	check.That(t, out == "code 3\nneighbour lived\n", "%q; stderr %q", out, &j.Err)
}
