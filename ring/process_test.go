package ring_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(deviceEnv); what != "" {
		os.Exit(status(deviceChild(what)))
	}
	if os.Getenv(elasticEnv) != "" {
		os.Exit(elasticChild())
	}
	code := m.Run()
	os.RemoveAll(standin.dir)
	os.Exit(code)
}

// status prints err and returns the exit status of a rank.
func status(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// standin is the folder of the stand-ins for the libraries of GPUs; see device_test.go.
var standin struct {
	once sync.Once
	dir  string
	err  error
}

// verdict is what a rank prints when its endless allreduce has failed.
type verdict struct {
	Rank int       // the rank that the error names
	At   time.Time // when it came
	Text string
}

// untilItFails calls step until it fails, and prints a line when it has begun and a verdict at
// the end.
func untilItFails(step func() error) error {
	var err error
	for i := 0; err == nil; i++ {
		if i == 3 {
			fmt.Println("running")
		}
		err = step()
	}
	v := verdict{Rank: -2, At: time.Now(), Text: err.Error()}
	if peer := new(ring.PeerError); errors.As(err, &peer) {
		v.Rank = peer.Rank
	}
	return json.NewEncoder(os.Stdout).Encode(v)
}

// kill ends the process of rank victim, calls then, and expects from all others a verdict about it
// within bound.
func kill(t *testing.T, ranks []*exec.Cmd, outputs []*bufio.Scanner, victim int, bound time.Duration, then func()) {
	t.Helper()
	killed := time.Now()
	if err := ranks[victim].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	then()
	for rank, out := range outputs {
		if rank == victim {
			continue
		}
		var v verdict
		if line := scanFor(t, out, "{"); json.Unmarshal([]byte(line), &v) != nil || v.Rank != victim {
			t.Errorf("rank %d says %q, want an error about rank %d", rank, line, victim)
		}
		if took := v.At.Sub(killed); took > bound {
			t.Errorf("rank %d knew after %v", rank, took)
		}
	}
}

// scanFor reads lines until one starts with prefix.
func scanFor(t testing.TB, out *bufio.Scanner, prefix string) string {
	t.Helper()
	for out.Scan() {
		if strings.HasPrefix(out.Text(), prefix) {
			return out.Text()
		}
	}
	t.Fatalf("a rank ended without a line %q", prefix)
	return ""
}

// startChild runs this test program as a rank: what it does there is up to the variable
// and the arguments.
func startChild(t testing.TB, job *ringtest.Job, rank int, variable string, args ...string) (*exec.Cmd,
	*bufio.Scanner) {
	t.Helper()
	return startChildWith(t, job, rank, variable+"=1", args...)
}

// startChildWith is startChild with a setting that says more.
func startChildWith(t testing.TB, job *ringtest.Job, rank int, setting string, args ...string) (*exec.Cmd,
	*bufio.Scanner) {
	t.Helper()
	return startProcess(t, append(job.Environ(rank), setting), args...)
}

// startProcess runs this test program with more in its environment.
func startProcess(t testing.TB, environ []string, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, bufio.NewScanner(stdout)
}
