package errand

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/host/meter"
	"github.com/gorun/gorun/internal/net/wire"
)

const (
	// minEvery is the least time between two readings.
	minEvery = 100 * time.Millisecond
	// soonTime is before the second reading, with which rates begin.
	soonTime = time.Second / 2
	// endTime is how often an errand that reads seldom looks whether ranks still run.
	endTime = time.Second
	// firstGPU bounds the wait for the first line about GPUs.
	firstGPU = 3 * time.Second
	// maxGPUs bounds the GPUs of a host.
	maxGPUs = 64
)

// watch reads what ranks and host use until all ranks have ended and no others come, or nobody
// waits for it. A launcher that is slower than the readings gets fewer.
func (e *errand) watch() error {
	m := meter.New("/")
	every := max(e.ask.Every, minEvery)
	defer m.Close()
	gpus := e.watchGPUs(every)
	defer gpus.stop()
	pace := min(every, soonTime)
	for due := time.Now(); ; {
		pids := e.pids()
		if len(pids) == 0 && !e.server.host.Stays {
			return nil
		}
		if wait := time.Until(due); wait > 0 {
			select {
			case <-e.dropped:
				return nil
			case <-time.After(min(wait, endTime)):
			}
			continue
		}
		if !e.report(m, pids, gpus) {
			return nil
		}
		due = time.Now().Add(pace)
		pace = every
	}
}

// report sends one time's readings, and reports whether somebody waits for more.
func (e *errand) report(m *meter.Meter, pids map[int]int, gpus *gpuWatch) bool {
	var clock unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &clock) // it cannot fail
	at := time.Duration(clock.Nano())
	ranks := m.Ranks(pids)
	slices.SortFunc(ranks, func(a, b wire.RankUse) int { return cmp.Compare(a.Rank, b.Rank) })
	var text []byte
	for i := range ranks {
		text = appendReading(text, wire.Reading{At: at, Rank: &ranks[i]})
	}
	host := m.Host()
	host.GPUs, host.GPUProblem = gpus.last()
	return e.write(appendReading(text, wire.Reading{At: at, Host: &host}))
}

func appendReading(to []byte, r wire.Reading) []byte {
	line, err := json.Marshal(r)
	if err != nil || len(line) >= wire.MaxReading {
		return to
	}
	return append(append(to, line...), '\n')
}

// gpuWatch keeps what nvidia-smi last printed about each GPU. A nil gpuWatch has none.
type gpuWatch struct {
	errand  *errand
	links   *links
	reading sync.WaitGroup

	mu      sync.Mutex
	gpus    map[int]gpu.Use
	problem string
}

// watchGPUs starts nvidia-smi on a host with GPUs. It prints as long as it runs: its start costs
// more than what it does.
func (e *errand) watchGPUs(every time.Duration) *gpuWatch {
	if !e.server.host.GPUs() {
		return nil
	}
	w := &gpuWatch{errand: e, gpus: map[int]gpu.Use{}}
	path, err := trust.Program("nvidia-smi", os.Getenv("PATH"))
	if err == nil {
		w.links, err = e.connect()
	}
	if err != nil {
		w.problem = err.Error()
		return w
	}
	err = e.server.host.Start(Process{
		ID:    e.ask.ID,
		Path:  path,
		Argv:  append([]string{path}, gpu.UseCommand(every)...),
		Env:   append(trust.Environ(os.Environ()), "LC_ALL=C"),
		Dir:   trust.StartDir(),
		Files: w.links.files(),
	})
	w.links.closeTheirs()
	if err != nil {
		w.links.closeOurs()
		w.links = nil
		w.problem = err.Error()
		return w
	}
	first := make(chan struct{})
	w.reading.Go(func() { w.read(first) })
	w.reading.Go(func() { _, _ = io.Copy(io.Discard, w.links.out[1]) })
	select {
	case <-first:
	case <-e.dropped:
	case <-time.After(firstGPU):
	}
	return w
}

// read takes lines until nvidia-smi ends. It closes first when all GPUs are known, or will not be
// soon.
func (w *gpuWatch) read(first chan<- struct{}) {
	once := sync.OnceFunc(func() { close(first) })
	defer once()
	lines := bufio.NewScanner(w.links.out[0])
	for lines.Scan() {
		use, err := gpu.ParseUse(lines.Text())
		w.mu.Lock()
		if err == nil && use.Index < maxGPUs {
			if len(w.gpus) == 0 {
				// lines about the other GPUs come with the first
				defer time.AfterFunc(100*time.Millisecond, once).Stop()
			}
			w.gpus[use.Index] = use
			w.problem = ""
		} else if err != nil && len(w.gpus) == 0 {
			w.problem = "nvidia-smi: " + err.Error()
		}
		w.mu.Unlock()
	}
}

func (w *gpuWatch) last() (all []wire.GPUUse, problem string) {
	if w == nil {
		return nil, ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range slices.Sorted(maps.Keys(w.gpus)) {
		u := w.gpus[i]
		all = append(all, wire.GPUUse{
			Index:  i,
			UUID:   u.UUID,
			Name:   u.Name,
			Busy:   u.Busy,
			Memory: int64(u.MemoryBytes),
			Used:   int64(u.MemoryUsed),
		})
	}
	return all, w.problem
}

func (w *gpuWatch) stop() {
	if w == nil || w.links == nil {
		return
	}
	w.errand.server.host.SignalProcess(w.errand.ask.ID, syscall.SIGKILL)
	select {
	case <-w.errand.exited:
	case <-time.After(drainTime): // it is stuck in the driver, and ends with the job
	}
	w.links.closeOurs()
	w.reading.Wait()
}
