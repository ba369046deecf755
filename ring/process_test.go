package ring_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// childEnv makes the test binary act as one rank of TestKilledRank.
const childEnv = "RING_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	if what := os.Getenv(deviceEnv); what != "" {
		if err := deviceChild(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(elasticEnv) != "" {
		os.Exit(elasticChild())
	}
	status := m.Run()
	os.RemoveAll(standin.dir)
	os.Exit(status)
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

// child allreduces until that fails. It prints a line when it has begun and a
// verdict at the end.
func child() int {
	ctx := context.Background()
	c, err := ring.Init(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer c.Close()
	buf := make([]float32, 256<<10)
	for i := 0; ; i++ {
		if i == 3 {
			fmt.Println("running")
		}
		if err := ring.AllReduce(ctx, c, buf, ring.Avg); err != nil {
			v := verdict{Rank: -2, At: time.Now(), Text: err.Error()}
			if peer := new(ring.PeerError); errors.As(err, &peer) {
				v.Rank = peer.Rank
			}
			if json.NewEncoder(os.Stdout).Encode(v) != nil {
				return 1
			}
			return 0
		}
	}
}

func TestKilledRank(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	onEveryTransport(t, func(t *testing.T, newDoor newDoor) {
		for _, size := range []int{2, 3, 4} {
			for victim := range size {
				t.Run(fmt.Sprintf("ranks=%d/victim=%d", size, victim), func(t *testing.T) { killOne(t, newDoor(t, size), victim) })
			}
		}
	})
}

func killOne(t *testing.T, door *ringtest.Door, victim int) {
	size := door.Size
	outputs := make([]*bufio.Scanner, size)
	ranks := make([]*exec.Cmd, size)
	for rank := range size {
		ranks[rank], outputs[rank] = startChild(t, door, rank, childEnv)
	}
	for _, out := range outputs {
		if !out.Scan() || out.Text() != "running" {
			t.Fatalf("a rank said %q, want running", out.Text())
		}
	}
	killed := time.Now()
	if err := ranks[victim].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for rank, out := range outputs {
		if rank == victim {
			continue
		}
		var v verdict
		if !out.Scan() || json.Unmarshal(out.Bytes(), &v) != nil {
			t.Errorf("rank %d ended without a verdict: %q", rank, out.Text())
			continue
		}
		if v.Rank != victim {
			t.Errorf("rank %d says %q, want an error about rank %d", rank, v.Text, victim)
		}
		if took := v.At.Sub(killed); took > told {
			t.Errorf("rank %d knew after %v", rank, took)
		}
	}
}

// startChild runs this test program as a rank: what it does there is up to the variable
// and the arguments.
func startChild(t testing.TB, door *ringtest.Door, rank int, variable string, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	return startChildWith(t, door, rank, variable+"=1", args...)
}

// startChildWith is startChild with a setting that says more.
func startChildWith(t testing.TB, door *ringtest.Door, rank int, setting string, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	return startProcess(t, append(door.Environ(rank), setting), args...)
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
