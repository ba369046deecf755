package agent

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gorun/gorun/internal/host/seat"
	"github.com/gorun/gorun/internal/net/wire"
)

// openMaster lets rank 0 bind MASTER_PORT. Without rank 0 here it gives the port back.
func (s *starter) openMaster() {
	if !slices.ContainsFunc(s.job.Ranks, func(r wire.Rank) bool { return r.Rank == 0 }) {
		s.master.Release()
		return
	}
	_ = s.master.Open() // a rank that cannot bind it says so
}

// watchMaster tells the user if another user of this host listens on MASTER_PORT before rank 0
// does. The kernel does not keep it from others once ranks may bind it.
func (s *starter) watchMaster(port int) {
	if uid, found := seat.AwaitOtherUser(port, s.ended); found {
		_ = s.streams.out.SendMessage(wire.TypeNote,
			wire.Note{Text: fmt.Sprintf("user %d of this host listens on MASTER_PORT, %d, and is not the job's: "+
				"what ranks send there can be read and changed", uid, port)})
	}
}

// usesMaster reports whether an environment has the reserved port as MASTER_PORT: -x may have given
// another one.
func (s *starter) usesMaster(env []string) bool {
	return s.master.Number > 0 && slices.Contains(env, "MASTER_PORT="+strconv.Itoa(s.master.Number))
}
