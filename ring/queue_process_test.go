package ring_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/ring"
)

// queueChildEnv makes TestQueueChild act as one rank of TestQueueKilledRank.
const queueChildEnv = "RING_TEST_QUEUE_CHILD"

// TestQueueChild is a rank in a process of its own: it trains until that fails. It prints a
// line when it has begun, one for each stall, and a verdict at the end.
func TestQueueChild(t *testing.T) {
	if os.Getenv(queueChildEnv) == "" {
		return
	}
	c, err := ring.Init(ctx)
	if err != nil {
		t.Fatal(err)
	}
	q, err := ring.NewQueue(ctx, c, ring.WithStall(100*time.Millisecond, func(text string) { fmt.Println("stall:", text) }))
	if err != nil {
		t.Fatal(err)
	}
	s := newStepper(q, 50, 1000)
	for i := 0; err == nil; i++ {
		if i == 3 {
			fmt.Println("running")
		}
		err = s.step()
	}
	v := verdict{Rank: -2, At: time.Now(), Text: err.Error()}
	if peer := new(ring.PeerError); errors.As(err, &peer) {
		v.Rank = peer.Rank
	}
	text, err := json.Marshal(v)
	fmt.Printf("%s\n", text)
	if err := errors.Join(err, q.Close(), c.Close()); err != nil {
		t.Error(err)
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
	t.Fatalf("a rank ended without saying %q", prefix)
	return ""
}

// A rank that is stopped is reported as a stall, and one that is killed ends the queues.
func TestQueueKilledRank(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, newDoor newDoor) {
		const size, victim = 3, 1
		door := newDoor(t, size)
		ranks := make([]*exec.Cmd, size)
		outputs := make([]*bufio.Scanner, size)
		for rank := range size {
			ranks[rank], outputs[rank] = startChild(t, door, rank, queueChildEnv, "-test.run=^TestQueueChild$")
		}
		for _, out := range outputs {
			scanFor(t, out, "running")
		}
		if err := ranks[victim].Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for rank, out := range outputs {
			if rank != victim {
				if line := scanFor(t, out, "stall:"); !strings.Contains(line, "waits for the other ranks") && !strings.Contains(line, "has waited") {
					t.Errorf("rank %d reports %q", rank, line)
				}
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
			if line := scanFor(t, out, "{"); json.Unmarshal([]byte(line), &v) != nil || v.Rank != victim {
				t.Errorf("rank %d says %q, want an error about rank %d", rank, line, victim)
			}
			if took := v.At.Sub(killed); took > 2*told {
				t.Errorf("rank %d knew after %v", rank, took)
			}
		}
	})
}
