package e2e

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
)

// Each 5 s a rank or an agent of 6 ranks on 3 hosts gets a random signal, or is stopped for a
// while, and the training ends as one without faults. ELASTIC_STORM=10m storms for 10 minutes,
// ELASTIC_SEED=7 repeats an order.
func testElasticStorm(t *testing.T) {
	span := spanOf(t, "ELASTIC_STORM")
	c := lab.MustNamespaces(t, lab.Specs(3)...)
	train := learn(t, span)
	r := command.StartWithin(t, c, 3*span+time.Minute, command.Binary("gorun"), nil,
		append([]string{"-np", "6", "--min-np", "1", "-H", "f1:2,f2:2,f3:2",
			"--blacklist-cooldown-range", "1,2"}, train.argv...)...)
	s := &storm{
		t:    t,
		run:  r,
		dice: seeded(t),
		born: map[int]time.Time{},
		done: map[string]int{},
	}
	awaitOutput(t, r, "epoch 1:")
	every := time.NewTicker(5 * time.Second)
	defer every.Stop()
	for began := time.Now(); time.Since(began) < span && !strings.Contains(r.Err.String(), "the job ended"); {
		select {
		case <-every.C:
			s.strike()
		case <-time.After(250 * time.Millisecond):
			s.ranks()
		}
	}
	r.Want(0)
	t.Logf("%v; %d epochs", s.done, strings.Count(r.Err.String(), "gorun: epoch "))
	train.judge(t, r)
}

// storm sends signals to a job's processes.
type storm struct {
	t    *testing.T
	run  *command.Run
	dice *rand.Rand
	born map[int]time.Time // when a rank's process was seen first
	done map[string]int
}

// ranks returns the ranks' processes that have existed for some seconds: each has the job's state.
func (s *storm) ranks() (old []int) {
	for _, pid := range lab.Processes(s.run.Mark) {
		if !strings.HasPrefix(command.ProcFile(pid, "cmdline"), command.Binary("elastic")) {
			continue
		}
		if s.born[pid].IsZero() {
			s.born[pid] = time.Now()
		}
		if time.Since(s.born[pid]) > 3*time.Second {
			old = append(old, pid)
		}
	}
	return old
}

// strike signals a rank or its agent. It spares the last ranks: with them the job's state would be
// lost.
func (s *storm) strike() {
	ranks := s.ranks()
	if len(ranks) < 3 {
		s.done["spared"]++
		return
	}
	pid := ranks[s.dice.IntN(len(ranks))]
	who := "rank"
	if s.dice.IntN(3) == 0 {
		if pid = serving(pid); pid == 0 {
			return
		}
		who = "agent"
	}
	signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSEGV, syscall.SIGABRT, syscall.SIGSTOP}
	signal := signals[s.dice.IntN(len(signals))]
	s.done[who+" "+signal.String()]++
	_ = syscall.Kill(pid, signal)
	if signal == syscall.SIGSTOP {
		time.AfterFunc(time.Duration(s.dice.IntN(12000))*time.Millisecond, func() {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		})
	}
}

// serving returns the agent above a process, or 0 if it has just ended.
func serving(pid int) int {
	for ; pid > 1; pid = parent(pid) {
		if strings.Contains(command.ProcFile(pid, "cmdline"), "__serve") {
			return pid
		}
	}
	return 0
}
