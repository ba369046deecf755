package python

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// elasticJob is gorun with ranks that come and go on this machine.
type elasticJob struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	text  strings.Builder // what the ranks have printed
	said  bytes.Buffer    // what gorun has
}

func startElastic(t *testing.T, args ...string) *elasticJob {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	j := &elasticJob{t: t, cmd: exec.CommandContext(ctx, filepath.Join(os.Getenv("GORUN_TEST_BIN"), "gorun"),
		append([]string{"--prefix", "none"}, args...)...)}
	j.cmd.Cancel = func() error { return j.cmd.Process.Signal(syscall.SIGTERM) }
	j.cmd.Stderr = &j.said
	stdout, err := j.cmd.StdoutPipe()
	if err == nil {
		err = j.cmd.Start()
	}
	must.OK(t, err)
	j.lines = bufio.NewScanner(stdout)
	return j
}

// until reads what the ranks print up to a line that has want in it.
func (j *elasticJob) until(want string) {
	j.t.Helper()
	for j.lines.Scan() {
		j.text.WriteString(j.lines.Text() + "\n")
		if strings.Contains(j.lines.Text(), want) {
			return
		}
	}
	j.cmd.Wait()
	j.t.Fatalf("nobody said %q:\n%s%s", want, j.text.String(), j.said.String())
}

// end waits for the job, which must go well for so many ranks.
func (j *elasticJob) end(ranks int) {
	j.t.Helper()
	for j.lines.Scan() {
		j.text.WriteString(j.lines.Text() + "\n")
	}
	if err := j.cmd.Wait(); err != nil || strings.Count(j.text.String(), "all right") != ranks {
		j.t.Errorf("%v, want %d ranks that are right:\n%s%s", err, ranks, j.text.String(), j.said.String())
	}
	j.t.Log(j.said.String())
}

func write(t *testing.T, name, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(name+".new", []byte(text), 0o755))
	must.OK(t, os.Rename(name+".new", name))
}

// States and samplers do what they say, alone and among three ranks.
func TestElasticStates(t *testing.T) {
	needs(t, "torch")
	for _, n := range []string{"1", "3"} {
		out := strings.Join(succeed(t, nil, "-np", n, "-H", "localhost:3", interpreter, script(t, "elastic_state.py")),
			"\n")
		check.That(t, strings.Count(out, "all right") == int(n[0]-'0'), "%s ranks:\n%s", n, out)
	}
}

// Without PyTorch: a rank is killed while the others wait in an operation, which fails there; they
// go on, and another comes.
func TestElasticObjects(t *testing.T) {
	needs(t, "numpy")
	j := startElastic(t, "-np", "3", "--min-np", "1", "-H", "localhost:3", interpreter, script(t, "elastic_objects.py"),
		filepath.Join(t.TempDir(), "mark"))
	j.until("all right")
	j.end(3)
}

// Slots come, ranks die, slots go: what a model and its sampler have seen is each sample once a
// pass.
func TestTorchElastic(t *testing.T) {
	needs(t, "torch")
	dir := t.TempDir()
	hosts := filepath.Join(dir, "hosts")
	discover := filepath.Join(dir, "discover.sh")
	slots := func(n int) { write(t, hosts, "localhost:"+strconv.Itoa(n)+"\n") }
	die := func(rank int) { write(t, filepath.Join(dir, fmt.Sprint("die.", rank)), "") }
	slots(2)
	write(t, discover, "#!/bin/sh\ncat "+hosts+"\n")
	j := startElastic(t, "-np", "2", "--min-np", "1", "--max-np", "3", "--host-discovery-script", discover,
		interpreter, script(t, "elastic_counts.py"), dir)
	j.until("size 2")
	slots(3)
	j.until("size 3")
	die(1)
	j.until("size 2")
	j.until("size 3")
	die(0)
	j.until("size 2")
	j.until("size 3")
	slots(2)
	j.until("size 2")
	write(t, filepath.Join(dir, "finish"), "")
	j.end(2)
}

// The example learns the digits.
func TestElasticExample(t *testing.T) {
	needs(t, "torch", "numpy")
	out := strings.Join(succeed(t, nil, "-np", "2", "--min-np", "1", "-H", "localhost:2", interpreter,
		example(t, "elastic/pytorch/train.py"), "--epochs", "6"), "\n")
	check.That(t, strings.Count(out, "accuracy 9") == 2 && strings.Contains(out, "size 2, at epoch 0, batch 0"),
		"want 90 %% or more on both ranks:\n%s", out)
}
