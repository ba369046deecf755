package probe

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// wait measures how long this process waits for a core while others have it.
type wait struct {
	began  time.Time
	late   time.Duration
	waited time.Duration
}

// startWait begins a wait at a time for which this process slept. If it woke late it has waited
// already.
func startWait(planned time.Time) wait {
	return wait{planned, time.Since(planned), waited(os.DirFS("/proc/self"))}
}

// share is the part of the time since the beginning in which a thread waited, at most 1.
func (w wait) share() float64 {
	since := time.Since(w.began)
	if since <= 0 {
		return 0
	}
	return min(max(w.late+waited(os.DirFS("/proc/self"))-w.waited, 0).Seconds()/since.Seconds(), 1)
}

// waited is how long the threads of a process have waited for a core since they began; 0 if the
// kernel does not tell.
func waited(process fs.FS) (sum time.Duration) {
	threads, _ := fs.ReadDir(process, "task")
	for _, t := range threads {
		if parts := strings.Fields(text(process, "task/"+t.Name()+"/schedstat")); len(parts) > 1 {
			ns, _ := strconv.ParseInt(parts[1], 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}
