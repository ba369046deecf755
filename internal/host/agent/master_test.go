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

// MASTER_ADDR, which rank 0's host says, leads other hosts' ranks to none of their own services.
func TestMasterIsNoOwnService(t *testing.T) {
	for _, tt := range []struct {
		master string
		port   int
		own    string
		want   string
	}{
		{"10.0.0.1", 4711, "10.0.0.2", "10.0.0.1:4711"},
		{"10.0.0.1", 0, "10.0.0.2", "10.0.0.1:0"},
		{"fd00::1", 4711, "fd00::2", "fd00::1:4711"},
		{"127.0.0.1", 4711, "127.0.0.1", "127.0.0.1:4711"},
		{"fe80::1%eth0", 4711, "fe80::2%eth0", "fe80::1%eth0:4711"},
		{"127.0.0.1", 4711, "10.0.0.2", ":0"},
		{"::ffff:127.0.0.1", 4711, "10.0.0.2", ":0"},
		{"169.254.169.254", 4711, "10.0.0.2", ":0"},
		{"example.com", 4711, "10.0.0.2", ":0"},
	} {
		r := rendezvous(wire.Start{Addrs: []string{tt.own}, MasterAddr: tt.master, MasterPort: tt.port})
		check.Equal(t, fmt.Sprintf("%s:%d", r.MasterAddr, r.MasterPort), tt.want, tt.master, tt.own)
	}
}
