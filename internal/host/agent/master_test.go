package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Another user who takes MASTER_PORT before rank 0 does is named, and cannot take it before the
// ranks start.
func TestOtherUsersOnMasterPort(t *testing.T) {
	lab.NeedRoot(t)
	const nobody = 65534
	h := startHost(t)
	notes := make(chan wire.Note, 1)
	h.other = func(f wire.Frame) {
		_ = wire.Handle(f, func(n wire.Note) error { notes <- n; return nil })
	}
	job := script(1, "echo started; read line")
	job.Ranks[0] = wire.Rank{Rank: 0, CrossSize: 1}
	job.Stdin = []int{0}
	h.greet(job)
	h.until("ready", func() bool { return h.ready != nil })
	if l, err := lab.ListenAs(nobody, h.ready.FreePort); err == nil {
		l.Close()
		t.Error("another user takes MASTER_PORT before the ranks start")
	}
	h.tell(wire.TypeStart, wire.Start{Addrs: []string{"127.0.0.1"}, MasterAddr: "127.0.0.1",
		MasterPort: h.ready.FreePort})
	h.awaitOutput(0)
	l := must.Get(lab.ListenAs(nobody, h.ready.FreePort))(t)
	defer l.Close()
	must.Until(t, "a note", func() bool { return len(notes) > 0 })
	n := <-notes
	check.That(t, n.By == 0 && strings.HasPrefix(n.Text, fmt.Sprintf("user %d of this host listens on MASTER_PORT, %d,",
		nobody, h.ready.FreePort)), "%+v", n)
	check.OK(t, h.out.Send(wire.TypeStdin, inputStream, nil))
	h.finish()
}
