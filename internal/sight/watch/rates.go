package watch

import (
	"slices"
	"strconv"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

// perSecond returns the growth of a sum per second. It is 0 for a sum that shrinks, as when a child
// of a rank ends unseen.
func perSecond[T int64 | time.Duration](before, now T, took time.Duration) float64 {
	if took <= 0 || now <= before {
		return 0
	}
	return float64(now-before) / took.Seconds()
}

// fill sets a rank's use of resources. number is its number at the agent.
func (r *Rank) fill(f *feed, number int) {
	prev := f.prev
	last := f.last
	u := last.ranks[number]
	before := u
	took := time.Duration(0)
	if prev != nil {
		if b, known := prev.ranks[number]; known && b.PID == u.PID {
			before = b
			took = last.at - prev.at
		}
	}
	r.PID = max(0, u.PID)
	r.State = u.State
	r.Waits = u.Waits
	r.Processes = max(0, u.Processes)
	r.Threads = max(0, u.Threads)
	r.CPUTotal = max(0, u.CPU.Seconds())
	r.CPU = perSecond(before.CPU, u.CPU, took) / float64(time.Second)
	r.Memory = max(0, u.Memory)
	r.ReadTotal = max(0, u.Read)
	r.WrittenTotal = max(0, u.Written)
	r.Read = perSecond(before.Read, u.Read, took)
	r.Written = perSecond(before.Written, u.Written, took)
	if u.Ring != nil {
		b := u.Ring
		if before.Ring != nil {
			b = before.Ring
		}
		r.Ring = ringOf(b, u.Ring, took)
	}
	r.assign(f.gpus[number], last.host.GPUs)
}

// ringOf returns the use of collectives between two readings.
func ringOf(before, now *wire.RingUse, took time.Duration) *Ring {
	share := max(perSecond(before.Time, now.Time, took),
		perSecond(before.Pending, now.Pending, took)) / float64(time.Second)
	return &Ring{
		Calls:        perSecond(before.Calls, now.Calls, took),
		Bytes:        perSecond(before.Bytes, now.Bytes, took),
		Share:        min(share, 1),
		CallsTotal:   max(0, now.Calls),
		BytesTotal:   max(0, now.Bytes),
		TimeTotal:    max(0, now.Time.Seconds()),
		PendingTotal: max(0, now.Pending.Seconds()),
	}
}

// assign sets the use of the GPUs with these indices or UUIDs.
func (r *Rank) assign(names []string, gpus []wire.GPUUse) {
	busy := 0
	known := 0
	used := int64(0)
	for _, name := range names {
		i := slices.IndexFunc(gpus, func(g wire.GPUUse) bool {
			return strconv.Itoa(g.Index) == name || g.UUID == name && name != ""
		})
		if i < 0 {
			continue
		}
		r.GPUs = append(r.GPUs, gpus[i].Index)
		used += max(0, gpus[i].Used)
		if gpus[i].Busy >= 0 {
			busy += min(gpus[i].Busy, 100)
			known++
		}
	}
	if len(r.GPUs) > 0 {
		r.GPUMemory = &used
	}
	if known > 0 {
		mean := float64(busy) / float64(known)
		r.GPUBusy = &mean
	}
}

// fill sets a host's use of resources.
func (h *Host) fill(prev, last *reading, now time.Time) {
	u := last.host
	before := last.host
	took := time.Duration(0)
	if prev != nil {
		before = prev.host
		took = last.at - prev.at
	}
	h.Age = max(0, now.Sub(last.came).Seconds())
	h.CPUs = max(0, u.CPUs)
	h.Used = max(0, u.Memory-u.Available)
	h.Memory = max(0, u.Memory)
	h.CPU = perSecond(before.Busy, u.Busy, took) / float64(time.Second)
	h.CPUTotal = max(0, u.Busy.Seconds())
	h.Read = perSecond(before.Read, u.Read, took)
	h.Written = perSecond(before.Written, u.Written, took)
	h.Received = perSecond(before.Received, u.Received, took)
	h.Sent = perSecond(before.Sent, u.Sent, took)
	h.ReadTotal = max(0, u.Read)
	h.WrittenTotal = max(0, u.Written)
	h.ReceivedTotal = max(0, u.Received)
	h.SentTotal = max(0, u.Sent)
	h.GPUProblem = u.GPUProblem
	for _, g := range u.GPUs {
		h.GPUs = append(h.GPUs, GPU{g.Index, g.UUID, g.Name, max(-1, min(g.Busy, 100)), max(0, g.Memory),
			max(0, g.Used)})
	}
}
