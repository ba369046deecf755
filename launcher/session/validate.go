package session

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
)

// A host may be compromised, so its agent's messages are data: they concern only its own ranks, are
// bounded, and texts for people have no control bytes. A host whose agent violates that counts as
// lost; others are unaffected.

const (
	maxGets = 1 << 13 // requests of one host that wait for keys
	// maxNotes bounds the notes per host that are shown. Programs should use their output instead.
	maxNotes = 100
	// maxGPUs and maxGPU bound the GPUs of a rank or host and the bytes of a GPU's name.
	maxGPUs = 256
	maxGPU  = 128
)

// validator checks the messages of one agent, and knows which ranks of its host run.
type validator struct {
	identity Identity
	notes    int

	mu      sync.Mutex
	exited  map[int]bool
	spawned map[int]bool // ranks that were spawned on the host and run
}

// Spawn records that a rank is spawned on the host.
func (v *validator) Spawn(rank int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.spawned[rank] = true
}

// Spawned lists the ranks that were spawned on the host and have not ended, ascending.
func (v *validator) Spawned() []int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.spawned))
}

// runs reports whether a rank was planned on the host, or is spawned there and has not ended.
func (v *validator) runs(rank int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.identity.Host.Planned(rank) || v.spawned[rank]
}

// Began reports whether a rank was planned on the host, or was spawned there, ended or not. A host
// owns the numbers of all ranks that may be spawned on it during the job: as many as need memory.
func (v *validator) Began(rank int) bool { return v.hasEnded(rank) || v.runs(rank) }

func (v *validator) hasEnded(rank int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.exited[rank]
}

// Clean returns a host's text, bounded and safe for a terminal.
func Clean(text string) string { return prose.Printable(text) }

// Reason is Clean for a host's reason, with which messages end: it is never "".
func Reason(text string) string { return cmp.Or(Clean(text), "no reason given") }

// checkReady keeps of a ready what a host may say: a placement of each of its ranks, with bounded
// texts.
func (v *validator) checkReady(r *wire.Ready) {
	if r.FreePort < secure.FirstPort || r.FreePort > 65535 {
		r.FreePort = 0
	}
	r.Contained = Clean(r.Contained)
	r.Note = Clean(r.Note)
	r.GPUs = Clean(r.GPUs)
	said := r.Places
	r.Places = nil
	known := map[int]bool{}
	for _, p := range said {
		if known[p.Rank] || !v.identity.Host.Planned(p.Rank) {
			continue
		}
		known[p.Rank] = true
		p.CPUs = Clean(p.CPUs)
		p.Where = Clean(p.Where)
		p.GPUs = first(p.GPUs, maxGPUs)
		for i, gpu := range p.GPUs {
			p.GPUs[i] = strings.Clone(gpu[:min(len(gpu), maxGPU)])
		}
		r.Places = append(r.Places, p)
	}
}

// CheckExit validates an exit: each rank of the agent ends once, with a code or signal that a
// process can have.
func (v *validator) CheckExit(e *wire.Exit) error {
	switch {
	case !v.Began(e.Rank):
		return ForeignRank(e.Rank)
	case v.hasEnded(e.Rank):
		return &wire.FormatError{Reason: fmt.Sprintf("the agent says twice that rank %d has ended", e.Rank)}
	case e.Code < 0 || e.Code > 255 || e.Signal < 0 || e.Signal > 127:
		return &wire.FormatError{Reason: fmt.Sprintf("the agent says that rank %d ended with code %d, signal %d",
			e.Rank, e.Code, e.Signal)}
	case e.MPI != "" && e.MPI != wire.MPIAborted && e.MPI != wire.MPIUnfinished:
		return &wire.FormatError{Reason: fmt.Sprintf("the agent says that rank %d ended as %.40q", e.Rank, e.MPI)}
	case e.OutOfMemory != "" && e.OutOfMemory != wire.MemoryOfHost && e.OutOfMemory != wire.MemoryOfGroup &&
		e.OutOfMemory != wire.MemoryLikely:
		return &wire.FormatError{Reason: fmt.Sprintf("the agent says that rank %d used up the memory of %.40q", e.Rank,
			e.OutOfMemory)}
	}
	v.mu.Lock()
	v.exited[e.Rank] = true
	delete(v.spawned, e.Rank)
	v.mu.Unlock()
	for _, text := range []*string{&e.Failed, &e.Remedy, &e.Program} {
		*text = Clean(*text)
		if !v.identity.Host.Planned(e.Rank) && len(*text) > maxSpawnedText {
			*text = strings.ToValidUTF8(strings.Clone((*text)[:maxSpawnedText]), "") + "..."
		}
	}
	return nil
}

// maxSpawnedText bounds each text about the end of a rank that was spawned. A host may spawn tens
// of thousands during a job, whose ends are kept.
const maxSpawnedText = 256

// CheckDone validates a done: all ranks of the agent have ended.
func (v *validator) CheckDone() error {
	for _, r := range v.identity.Host.Ranks {
		if !v.hasEnded(r.Rank) {
			return &wire.FormatError{Reason: fmt.Sprintf("the agent is done, and has not said how rank %d ended",
				r.Rank)}
		}
	}
	return nil
}

// CheckLost validates a lost: one of the agent's ranks lost a rank that exists.
func (v *validator) CheckLost(l *wire.Lost, size int) error {
	switch {
	case !v.identity.Owns(l.By):
		return ForeignRank(l.By)
	case l.Rank != l.By && (l.Rank < 0 || l.Rank >= size):
		return &wire.FormatError{Reason: fmt.Sprintf("rank %d lost rank %d, which does not exist", l.By, l.Rank)}
	}
	l.Cause = Reason(l.Cause)
	l.Awaited = l.Awaited && l.Rank == l.By
	return nil
}

// CheckEntered validates an entered: its ranks are the agent's.
func (v *validator) CheckEntered(e *wire.Entered) error {
	for _, rank := range e.Ranks {
		if !v.identity.Owns(rank) {
			return ForeignRank(rank)
		}
	}
	return nil
}

// CheckSpawn validates that more ranks are asked for on behalf of one of the agent's.
func (v *validator) CheckSpawn(r *wire.SpawnRequest) error {
	if !v.identity.Owns(r.By) {
		return ForeignRank(r.By)
	}
	return nil
}

// CheckNote validates that a note is from one of the agent's ranks, and reports whether to show it.
// An agent of an elastic job has one rank, which may name itself by an earlier number.
func (v *validator) CheckNote(n *wire.Note) (worth bool, err error) {
	if v.identity.Now != nil {
		n.By = v.identity.Host.Ranks[0].Rank
	}
	if !v.identity.Owns(n.By) {
		return false, ForeignRank(n.By)
	}
	n.Text = Clean(n.Text)
	v.notes++
	return v.notes <= maxNotes, nil
}

// CheckFence validates a fence: its values are those of the agent's ranks, and within the rank
// server's bounds.
func CheckFence(f wire.Fence, owns func(rank int) bool) error {
	if len(f.Name) > kv.MaxKey {
		return &wire.FormatError{Reason: fmt.Sprintf("a fence's name of %d bytes", len(f.Name))}
	}
	if len(f.Values) == 0 {
		return &wire.FormatError{Reason: fmt.Sprintf("fence %.40q without a value", f.Name)}
	}
	for rank, value := range f.Values {
		switch {
		case !owns(rank):
			return ForeignRank(rank)
		case len(value) > kv.MaxFence:
			return &wire.FormatError{Reason: fmt.Sprintf("rank %d brings %d bytes to fence %.40q", rank, len(value),
				f.Name)}
		}
	}
	return nil
}

func checkGet(g wire.Get) error {
	if len(g.Key) > kv.MaxKey || g.Wait < 0 {
		return &wire.FormatError{Reason: fmt.Sprintf("a request for a key of %d bytes, for %v", len(g.Key), g.Wait)}
	}
	return nil
}

// Clamp limits an agent's time to the interval between from and to: ranks end after they were
// started, and not after now. A wrong clock can then only make its own ranks the first to fail.
func Clamp(at, from, to time.Duration) time.Duration { return max(from, min(at, to)) }

// ForeignRank is the error for a message about a rank that is not the agent's.
func ForeignRank(rank int) error {
	return &wire.FormatError{Reason: fmt.Sprintf("the agent spoke for rank %d, which is not its own", rank)}
}
