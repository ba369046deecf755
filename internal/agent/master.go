package agent

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/gorun/gorun/internal/agent/seat"
	"github.com/gorun/gorun/internal/wire"
)

// The agent looks who listens on MASTER_PORT until a rank does, after masterTime, and then less and less often.
const (
	masterTime    = 250 * time.Millisecond
	maxMasterTime = 8 * time.Second
)

// openMaster lets rank 0 bind MASTER_PORT. Without rank 0 here it gives the port back.
func (a *agent) openMaster() {
	if !slices.ContainsFunc(a.job.Ranks, func(r wire.Rank) bool { return r.Rank == 0 }) {
		a.master.Release()
		return
	}
	_ = a.master.Open() // a rank that cannot bind it says so
}

// watchMaster tells the user if another user of this host listens on MASTER_PORT before rank 0 does. The kernel does not keep it
// from others once ranks may bind it.
func (a *agent) watchMaster(port int) {
	own := uint32(os.Getuid())
	for wait := masterTime; ; wait = min(wait*5/4, maxMasterTime) {
		select {
		case <-time.After(wait):
		case <-a.ended:
			return
		}
		uids, err := seat.Listeners(port)
		switch {
		case err != nil, slices.Contains(uids, own), slices.Contains(uids, 0):
			return
		case len(uids) > 0:
			_ = a.out.SendMessage(wire.TypeNote, wire.Note{Text: fmt.Sprintf("user %d of this host listens on MASTER_PORT, %d, and is not the job's: "+
				"what ranks send there can be read and changed", uids[0], port)})
			return
		}
	}
}

// usesMaster reports whether an environment has the reserved port as MASTER_PORT: -x may have given another one.
func (a *agent) usesMaster(env []string) bool {
	return a.master.Number > 0 && slices.Contains(env, "MASTER_PORT="+strconv.Itoa(a.master.Number))
}
