package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLocalRanksSeeTheirPlace(t *testing.T) {
	r := start(t, nil, "-np", "3", "sh", "-c",
		"echo $GORUN_RANK/$GORUN_SIZE $RANK/$WORLD_SIZE $HOROVOD_LOCAL_RANK/$HOROVOD_LOCAL_SIZE $OMPI_COMM_WORLD_RANK; [ -n \"$MASTER_ADDR\" ]").want(0)
	got := r.lines()
	slices.Sort(got)
	want := []string{"localhost:0: 0/3 0/3 0/3 0", "localhost:1: 1/3 1/3 1/3 1", "localhost:2: 2/3 2/3 2/3 2"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if r.err.Len() > 0 {
		t.Errorf("stderr: %s", &r.err)
	}
}

func TestExitCodesAreTheFirstFailingRanks(t *testing.T) {
	for _, tc := range []struct {
		script string
		code   int
		says   string
	}{
		{"[ $RANK = 1 ] && exit 3; exec sleep 60", 3, "rank 1 on localhost exited with code 3"},
		{"[ $RANK = 2 ] && kill -SEGV $$; exec sleep 60", 139, "rank 2 on localhost was killed by signal 11 (SIGSEGV)"},
		{"[ $RANK = 0 ] && kill -KILL $$; exec sleep 60", 137, "rank 0 on localhost was killed by signal 9 (SIGKILL)"},
		// The other ranks notice and exit with another code, which is not the cause.
		{"trap 'exit 9' TERM; [ $RANK = 0 ] && exit 7; while :; do sleep .05; done", 7, "rank 0 on localhost exited with code 7"},
	} {
		r := start(t, nil, "-np", "3", "sh", "-c", tc.script).want(tc.code, tc.says)
		if r.took > 5*time.Second {
			t.Errorf("%q: took %v", tc.script, r.took)
		}
	}
}

func TestMistakesAreExplained(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	script := filepath.Join(dir, "script")
	hosts := filepath.Join(dir, "hosts")
	good := filepath.Join(dir, "good")
	for name, text := range map[string]string{plain: "x", good: "node1.example.com slots=2\n", script: "#!/no/such/interpreter\n", hosts: "a slots=2\nb slots=two\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args  []string
		code  int
		words []string
	}{
		{nil, 2, []string{"no program given", "hint:"}},
		{[]string{"-np", "0", "true"}, 2, []string{"at least 1"}},
		{[]string{"-np", "two", "true"}, 2, []string{`"two"`}},
		{[]string{"--hostfil", "x", "true"}, 2, []string{"unknown flag --hostfil", "did you mean --hostfile?"}},
		{[]string{"-Y", "true"}, 2, []string{"unknown flag -Y"}},
		{[]string{"-H", "a:0", "true"}, 2, []string{`-H:1: "a:0"`}},
		{[]string{"-H", "node1", "--hostfile", good, "true"}, 2, []string{"hostfile " + good + " has no host node1", "did you mean node1.example.com?"}},
		{[]string{"--hostfile", hosts, "true"}, 2, []string{hosts + ":2:", `slots=two`}},
		{[]string{"--hostfile", "/no/such", "true"}, 2, []string{"/no/such", "no such file"}},
		{[]string{"-np", "8", "-H", "localhost:2", "--no-oversubscribe", "true"}, 2, []string{"8 ranks need 8 slots, but the host has 2", "-np 2"}},
		{[]string{"--prefix", "fancy", "true"}, 2, []string{"fancy", "horovod"}},
		{[]string{"--timeout", "soon", "true"}, 2, []string{"soon"}},
		{[]string{"no-such-program-here"}, 127, []string{"localhost", "no-such-program-here", "PATH"}},
		{[]string{"/no/such/program"}, 127, []string{"localhost", "/no/such/program does not exist"}},
		{[]string{plain}, 126, []string{"not executable", "chmod +x"}},
		{[]string{script}, 127, []string{"/no/such/interpreter"}},
		{[]string{dir}, 126, []string{"is a directory"}},
		{[]string{"--wdir", "/no/such/dir", "true"}, 125, []string{"localhost", "/no/such/dir does not exist", "--wdir"}},
	} {
		r := start(t, nil, tc.args...).want(tc.code, tc.words...)
		if r.out.Len() > 0 || !strings.HasPrefix(r.err.String(), "gorun: error: ") {
			t.Errorf("%q: stdout %q, stderr %q", tc.args, &r.out, &r.err)
		}
		if r.took > 3*time.Second {
			t.Errorf("%q: took %v", tc.args, r.took)
		}
	}
}

func TestOversubscriptionWarnsOnce(t *testing.T) {
	r := start(t, nil, "-np", "4", "-H", "localhost:2", "true").want(0)
	if n := strings.Count(r.err.String(), "\n"); n != 1 || !strings.Contains(r.err.String(), "4 ranks on 2 slots") {
		t.Errorf("stderr: %q", &r.err)
	}
}

func TestProgramKeepsItsOwnFlags(t *testing.T) {
	r := start(t, nil, "--prefix", "none", "-np", "1", "printf", `%s|`, "-np", "2", "--hostfile", "x", "", "a b", "$HOME", "*", "\xff\x01\n").want(0)
	if got, want := r.out.String(), "-np|2|--hostfile|x||a b|$HOME|*|\xff\x01\n|"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEnvironmentAndDirectoryReachTheRanks(t *testing.T) {
	dir := t.TempDir()
	value := "a b\n\"'$`\\;\xff"
	r := startIn(t, nil, []string{"E2E_PLAIN=" + value}, "--prefix", "none", "--wdir", dir, "-x", "E2E_X=1=2", "sh", "-c", `printf '%s|%s|%s' "$E2E_PLAIN" "$E2E_X" "$(pwd)"`).want(0)
	if want := value + "|1=2|" + dir; r.out.String() != want {
		t.Errorf("got %q, want %q", &r.out, want)
	}
}

func TestStdinGoesToRankZeroOnly(t *testing.T) {
	r := &run{}
	pipeIn(t, r, strings.NewReader("one\ntwo\n"), "-np", "2", "sh", "-c", "cat; echo end")
	got := r.lines()
	slices.Sort(got)
	if want := []string{"localhost:0: end", "localhost:0: one", "localhost:0: two", "localhost:1: end"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// pipeIn runs gorun with stdin.
func pipeIn(t *testing.T, r *run, stdin io.Reader, args ...string) {
	t.Helper()
	cmd := exec.Command(binary("gorun"), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &r.out, &r.err
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &r.err)
	}
}

func TestBytesPassExactly(t *testing.T) {
	data := make([]byte, 20<<20)
	state := uint32(1)
	for i := range data {
		state = state*1664525 + 1013904223
		data[i] = byte(state >> 24)
	}
	r := &run{}
	pipeIn(t, r, bytes.NewReader(data), "-np", "1", "--prefix", "none", "cat")
	if sha256.Sum256(r.out.Bytes()) != sha256.Sum256(data) {
		t.Errorf("%d bytes came back changed (%d sent)", r.out.Len(), len(data))
	}
}

func TestOutputFilesHoldEachRanksBytes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	start(t, nil, "-np", "11", "--output-filename", dir, "sh", "-c", `printf "out$RANK\r\n\0"; printf err$RANK >&2`).want(0)
	for rank := range 11 {
		for name, want := range map[string]string{"stdout": fmt.Sprintf("out%d\r\n\x00", rank), "stderr": fmt.Sprintf("err%d", rank)} {
			got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("rank.%02d", rank), name))
			if err != nil || string(got) != want {
				t.Errorf("rank %d %s: %q, %v", rank, name, got, err)
			}
		}
	}
}

func TestPrefixStyles(t *testing.T) {
	for style, want := range map[string]string{"rank": "[0] hi\n", "horovod": "[0]<stdout>:hi\n", "mpirun": "[1,0]<stdout>:hi\n", "%h/%r ": "localhost/0 hi\n", "none": "hi\n"} {
		if r := start(t, nil, "--prefix", style, "echo", "hi").want(0); r.out.String() != want {
			t.Errorf("%s: %q", style, &r.out)
		}
	}
	if r := start(t, nil, "--tag-output", "sh", "-c", "echo hi >&2").want(0); r.err.String() != "[1,0]<stderr>:hi\n" {
		t.Errorf("--tag-output: %q", &r.err)
	}
}

func TestTimeoutStopsTheJob(t *testing.T) {
	r := start(t, nil, "-np", "2", "--timeout", "0.5", "sleep", "60").want(124, "--timeout")
	if r.took > 3*time.Second {
		t.Errorf("took %v", r.took)
	}
}

func TestSignals(t *testing.T) {
	ready := func(r *run) func() bool { return func() bool { return strings.Count(r.out.String(), "ready") == 2 } }
	t.Run("one Ctrl-C lets ranks clean up", func(t *testing.T) {
		r := start(t, nil, "-np", "2", "sh", "-c", "trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep .05; done")
		await(t, "the ranks", ready(r))
		signalRun(t, r, syscall.SIGINT)
		r.want(130, "again to kill")
		if n := strings.Count(r.out.String(), "cleaned"); n != 2 {
			t.Errorf("%d ranks cleaned up: %s", n, &r.out)
		}
	})
	t.Run("two kill", func(t *testing.T) {
		r := start(t, nil, "-np", "2", "--grace", "60", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep .05; done")
		await(t, "the ranks", ready(r))
		signalRun(t, r, syscall.SIGINT)
		await(t, "the first word", func() bool { return strings.Contains(r.err.String(), "again") })
		signalRun(t, r, syscall.SIGINT)
		r.want(130, "killing")
		if r.took > 10*time.Second {
			t.Errorf("took %v", r.took)
		}
	})
	t.Run("TERM is 143", func(t *testing.T) {
		r := start(t, nil, "-np", "2", "sh", "-c", "echo ready; exec sleep 60")
		await(t, "the ranks", ready(r))
		signalRun(t, r, syscall.SIGTERM)
		r.want(143)
	})
	t.Run("USR1 reaches the ranks", func(t *testing.T) {
		r := start(t, nil, "-np", "2", "sh", "-c", "trap 'echo saved; exit 0' USR1; echo ready; while :; do sleep .05; done")
		await(t, "the ranks", ready(r))
		signalRun(t, r, syscall.SIGUSR1)
		r.want(0)
		if n := strings.Count(r.out.String(), "saved"); n != 2 {
			t.Errorf("%d ranks saved", n)
		}
	})
	t.Run("ignored TERM ends after the grace", func(t *testing.T) {
		r := start(t, nil, "-np", "2", "--grace", "1", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep .05; done")
		await(t, "the ranks", ready(r))
		signalRun(t, r, syscall.SIGTERM)
		begun := time.Now()
		r.want(143)
		if took := time.Since(begun); took < 900*time.Millisecond || took > 3*time.Second {
			t.Errorf("gone after %v, want about 1 s", took)
		}
	})
}

func signalRun(t *testing.T, r *run, s syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func TestLeftoverProcessesAreSwept(t *testing.T) {
	daemon := "(setsid sh -c 'exec sleep 300' >/dev/null 2>&1 </dev/null &); "
	start(t, nil, "-np", "2", "sh", "-c", daemon+"exit 0").want(0)
	start(t, nil, "-np", "2", "sh", "-c", daemon+"sleep .2; exit 5").want(5)
	r := start(t, nil, "-np", "1", "sh", "-c", "sleep 300 & exit 0").want(0) // holds our pipe
	if r.took > 5*time.Second {
		t.Errorf("a held pipe kept the job for %v", r.took)
	}
}

func TestClosedStdoutEndsTheJob(t *testing.T) {
	r := start(t, nil) // only for its mark and environment
	_ = r.wait()
	cmd := exec.Command("sh", "-c", `"$0" -np 2 yes | head -n 1 >/dev/null; exit 0`, binary("gorun"))
	cmd.Env = append(os.Environ(), r.mark)
	begun := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	r.nothingLeft(time.Second)
}

func TestVersionAndHelp(t *testing.T) {
	if r := start(t, nil, "version").want(0); !strings.HasPrefix(r.out.String(), "gorun ") {
		t.Errorf("version: %q", &r.out)
	}
	if r := start(t, nil, "--help").want(0); !strings.Contains(r.out.String(), "gorun -np 8 -H f1:4,f2:4") || !strings.Contains(r.out.String(), "Exit codes") {
		t.Errorf("help: %s", &r.out)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if r := start(t, nil, "completion", shell).want(0); r.out.Len() < 1000 {
			t.Errorf("completion %s: %d bytes", shell, r.out.Len())
		}
	}
	if r := start(t, nil, "-np", "4", "-H", "f1:2,f2:2", "--dry-run", "true").want(0); !strings.Contains(r.out.String(), "ranks 2-3") {
		t.Errorf("dry run: %s", &r.out)
	}
}

func TestBinaryIsStatic(t *testing.T) {
	out, _ := exec.Command("ldd", binary("gorun")).CombinedOutput()
	if !strings.Contains(string(out), "not a dynamic executable") && !strings.Contains(string(out), "statically linked") {
		t.Errorf("ldd: %s", out)
	}
}
