package ring_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring"
)

func TestMain(m *testing.M) {
	lab.Play(map[string]func(told string) error{
		"duty":    doDuty,
		"queue":   trainUntilItFails,
		"latency": measureLatency,
		"device":  useDevice,
		"elastic": trainElastic,
	})
	code := m.Run()
	os.RemoveAll(standin.dir)
	os.Exit(code)
}

// standin is the folder of the stand-ins for the libraries of GPUs; see device_test.go.
var standin struct {
	once sync.Once
	dir  string
	err  error
}

// verdict is what a rank prints when its calls have failed.
type verdict struct {
	Rank int       // the rank that the error names
	At   time.Time // when it came
	Text string
}

// tell prints the verdict on the error that ended a rank's calls.
func tell(err error) error {
	v := verdict{Rank: -2, At: time.Now(), Text: err.Error()}
	if peer := new(ring.PeerError); errors.As(err, &peer) {
		v.Rank = peer.Rank
	}
	return json.NewEncoder(os.Stdout).Encode(v)
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
	return tell(err)
}

// start starts a rank that is a process.
func start(t testing.TB, environ []string, role string) *lab.Program {
	t.Helper()
	return lab.StartRole(t, exec.Command(os.Args[0]), role, environ...)
}

// verdictOf waits for the end of a rank's calls.
func verdictOf(p *lab.Program) (v verdict, err error) {
	line, err := p.Hear("{")
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal([]byte(line), &v)
}

// allRunning waits until all ranks say that they are running.
func allRunning(t *testing.T, ranks []*lab.Program) {
	t.Helper()
	for rank, p := range ranks {
		_, err := p.Hear("running")
		must.OK(t, err, "rank", rank)
	}
}

// kill ends the process of rank victim, calls then, and expects from all others a verdict about it
// within bound.
func kill(t *testing.T, ranks []*lab.Program, victim int, bound time.Duration, then func()) {
	t.Helper()
	killed := time.Now()
	must.OK(t, ranks[victim].Process.Kill())
	then()
	for rank, p := range ranks {
		if rank == victim {
			continue
		}
		v, err := verdictOf(p)
		check.That(t, err == nil && v.Rank == victim,
			"rank %d says %+v, %v, want an error about rank %d", rank, v, err, victim)
		took := v.At.Sub(killed)
		check.That(t, took <= bound, "rank %d knew after %v", rank, took)
	}
}
