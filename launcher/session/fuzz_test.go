package session

import (
	"errors"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/launcher/plan"
)

// FuzzMessages lets a host send any message of the types that are validated here. What is accepted
// is about its own rank 3, and clean.
func FuzzMessages(f *testing.F) {
	for kind := range 6 {
		f.Add(uint8(kind), []byte(`{"rank":3,"text":"x","name":"n","members":[3],"values":["eA=="],"key":"k","wait":-1}`))
	}
	f.Add(uint8(0), []byte(`{"rank":4,"code":-1,"signal":99}`))
	f.Fuzz(func(t *testing.T, kind uint8, payload []byte) {
		host := &plan.Host{Host: hostfile.Host{Name: "f1"}, Ranks: []plan.Rank{{Rank: 3}}}
		v := validator{identity: Identity{Host: host}, exited: map[int]bool{}, spawned: map[int]bool{}}
		frame := wire.Frame{Payload: payload}
		rank := 3
		err := errors.New("no message")
		switch kind % 6 {
		case 0:
			err = wire.Handle(frame, func(e wire.Exit) error { rank = e.Rank; return v.CheckExit(&e) })
		case 1:
			err = wire.Handle(frame, func(l wire.Lost) error { return v.CheckLost(&l, 8) })
		case 2:
			err = wire.Handle(frame, func(e wire.Entered) error { return v.CheckEntered(&e) })
		case 3:
			err = wire.Handle(frame, func(r wire.SpawnRequest) error { return v.CheckSpawn(&r) })
		case 4:
			err = wire.Handle(frame, func(n wire.Note) error { _, err := v.CheckNote(&n); return err })
		case 5:
			err = wire.Handle(frame, func(f wire.Fence) error {
				return CheckFence(f, func(rank int) bool { return rank == 3 })
			})
		}
		check.That(t, err != nil || rank == 3, "%q is about rank %d", payload, rank)
	})
}
