package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/kv"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/wire"
)

// trainElastic is a stock elastic Horovod program. It ends when a file is there, and says so whenever it begins anew.
const trainElastic = `
import os, sys, time, torch, horovod.torch as hvd
hvd.init()
state = hvd.elastic.TorchState(model=torch.nn.Linear(2, 1), batch=0)

@hvd.elastic.run
def train(state):
    first = True
    while True:
        end = torch.tensor([float(os.path.exists(sys.argv[1])), 1.0])
        ended, n = hvd.allreduce(end, op=hvd.Sum).tolist()
        state.batch += 1
        if first:
            print(f"rank {hvd.rank()} of {hvd.size()}, {int(n)} at work", flush=True)
        first = False
        if ended:
            return
        state.commit()
        time.sleep(0.02)

train(state)
print("done", state.batch, flush=True)
`

// workers are the processes of an elastic job on this host, each with its agent. The test is the launcher.
type workers struct {
	t     *testing.T
	store *kv.Store
	env   string
	end   string // a file that ends the training
	ctx   context.Context
	wg    sync.WaitGroup
}

// elasticWorker is one of them.
type elasticWorker struct {
	*host
	mu    sync.Mutex
	parks []int
	joins []int
	notes []string
}

// start starts a process with its numbers in the epoch that it is started for.
func (ws *workers) start(slot, epoch, rank, size int) *elasticWorker {
	ws.t.Helper()
	// Of those that are left one may not see that another is gone before Gloo's time is over.
	w := &elasticWorker{host: startHost(ws.t, ws.env, "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1", "HOROVOD_GLOO_TIMEOUT_SECONDS=5")}
	w.host.mu.Lock()
	w.other = func(f wire.Frame) { ws.take(w, f) }
	w.host.mu.Unlock()
	job := jobOf(1, lab.Python, "-c", trainElastic, ws.end)
	job.Size, job.Hosts, job.Epoch, job.Grace = size, 1, epoch, 2*time.Second
	job.Ranks[0] = wire.Rank{Rank: rank, LocalRank: rank, CrossSize: 1}
	job.Elastic = &wire.Elastic{Slot: slot, Slots: 4, LocalSize: size, Nodes: 1, Lease: time.Minute, Timeout: time.Minute}
	w.greet(job)
	w.until("ready", func() bool { return w.ready != nil })
	w.tell(wire.TypeStart, wire.Start{Addrs: []string{"127.0.0.1"}, MasterAddr: "127.0.0.1", MasterPort: 4711})
	return w
}

// take does what a launcher does with what a process asks for. It may not wait.
func (ws *workers) take(w *elasticWorker, f wire.Frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	switch f.Type {
	case wire.TypePut:
		err = wire.Handle(f, func(p wire.Put) error { return ws.store.Put(p.Key, p.Value) })
	case wire.TypeGet:
		err = wire.Handle(f, func(g wire.Get) error {
			ws.wg.Go(func() {
				ctx, cancel := context.WithTimeout(ws.ctx, g.Wait)
				defer cancel()
				value, found := ws.store.Get(ctx, g.Key)
				_ = w.out.SendMessage(wire.TypeValue, wire.Value{ID: g.ID, Value: value, Found: found}) // it may have been killed
			})
			return nil
		})
	case wire.TypePark:
		err = wire.Handle(f, func(p wire.Park) error { w.parks = append(w.parks, p.Left); return nil })
	case wire.TypeJoined:
		err = wire.Handle(f, func(j wire.Joined) error { w.joins = append(w.joins, j.Epoch); return nil })
	case wire.TypeNote:
		err = wire.Handle(f, func(n wire.Note) error { w.notes = append(w.notes, n.Text); return nil })
	}
	if err != nil {
		ws.t.Errorf("%s: %v", f.Type, err)
	}
}

// parked waits until each has asked for the epoch after left, once.
func (ws *workers) parked(left int, all ...*elasticWorker) {
	ws.t.Helper()
	for _, w := range all {
		until(ws.t, fmt.Sprintf("the question for the epoch after %d", left), func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Contains(w.parks, left)
		})
	}
}

// begin has all meet in an epoch, with ranks in the order given, and waits until they train.
func (ws *workers) begin(epoch int, all ...*elasticWorker) {
	ws.t.Helper()
	for rank, w := range all {
		w.tell(wire.TypeEpoch, wire.Epoch{Number: epoch, Key: make([]byte, 32), Size: len(all), Rank: rank, LocalRank: rank, LocalSize: len(all),
			CrossSize: 1, Nodes: 1, Addrs: []string{"127.0.0.1"}})
	}
	for rank, w := range all {
		until(ws.t, fmt.Sprintf("rank %d to join epoch %d", rank, epoch), func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Contains(w.joins, epoch)
		})
		line := fmt.Sprintf("rank %d of %d, %[2]d at work\n", rank, len(all))
		w.until(line, func() bool {
			for _, text := range w.output {
				if strings.HasSuffix(string(text), line) {
					return true
				}
			}
			return false
		})
	}
}

// kill ends a process as a crash does.
func (ws *workers) kill(w *elasticWorker) {
	ws.t.Helper()
	killed := false
	for _, pid := range lab.Processes(w.mark) {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(line), lab.Python) {
			killed = syscall.Kill(pid, syscall.SIGKILL) == nil
		}
	}
	if !killed {
		ws.t.Fatal("no process to kill")
	}
	w.until("its end", func() bool { return len(w.exits) == 1 })
}

// Stock elastic Horovod goes through a job that grows, loses its rank 0, and grows again, at agents of one process each.
func TestServeElasticHorovod(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds")
	}
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	ws := &workers{t: t, store: kv.NewStore(), env: lab.Horovod(t), end: filepath.Join(t.TempDir(), "end"), ctx: ctx}
	defer ws.wg.Wait()
	defer cancel()
	a, b := ws.start(0, 1, 0, 2), ws.start(1, 1, 1, 2)
	ws.parked(0, a, b)
	ws.begin(1, a, b)

	// One more comes. Those at work go on until it is ready, and leave at their next commit.
	c := ws.start(2, 2, 2, 3)
	ws.parked(0, c)
	for _, w := range []*elasticWorker{a, b} {
		w.tell(wire.TypeInterrupt, wire.Interrupt{Epoch: 1})
	}
	called := time.Now()
	ws.parked(1, a, b)
	ws.begin(2, b, a, c)
	t.Logf("grown %v after the call", time.Since(called))

	ws.kill(b) // rank 0
	killed := time.Now()
	for _, w := range []*elasticWorker{a, c} {
		w.tell(wire.TypeAbort, wire.Abort{Epoch: 2, Rank: 0, Host: "h1", Cause: "it was killed"})
	}
	ws.parked(2, a, c)
	ws.begin(3, a, c)
	took := time.Since(killed)
	t.Logf("at work %v after the death", took)
	if took > 16*time.Second { // the goal is 8 s
		t.Errorf("at work %v after the death", took)
	}

	d := ws.start(1, 4, 2, 3)
	ws.parked(0, d)
	for _, w := range []*elasticWorker{a, c} {
		w.tell(wire.TypeInterrupt, wire.Interrupt{Epoch: 3})
	}
	ws.parked(3, a, c)
	ws.begin(4, a, c, d)

	if err := os.WriteFile(ws.end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*elasticWorker{a, c, d} {
		for rank, exit := range w.finish() {
			if exit.Code != 0 || exit.Signal != 0 {
				t.Errorf("rank %d ended as %+v: %s", rank, exit, w.printed(rank, 2))
			}
		}
		if len(w.notes) > 0 {
			t.Errorf("the user is told %q", w.notes)
		}
	}
	for w, want := range map[*elasticWorker][]int{a: {0, 1, 2, 3}, b: {0, 1}, c: {0, 2, 3}, d: {0}} {
		if !slices.Equal(w.parks, want) {
			t.Errorf("parked after %v, want %v", w.parks, want)
		}
	}
}
