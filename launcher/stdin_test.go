package launcher

import (
	"bytes"
	"fmt"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
)

// Every host gets all of the input, at the pace of the slowest one. A host whose ranks have
// closed it, and one that is done, hold up nobody.
func TestRunFeedsStdinToAllHosts(t *testing.T) {
	input := bytes.Repeat([]byte("0123456789abcdef"), 5*wire.Window/16+1)
	machines := []*fake.Machine{serving(refuseInput), serving(eat(input)), serving(succeed), serving(eat(input))}
	r, err := runOn(t, machines, func(o *Options) {
		o.Stdin = iotest.HalfReader(bytes.NewReader(input))
		o.StdinRank = StdinAll
	})
	check.That(t, err == nil && r.Code() == 0 && r.took <= 2*time.Second,
		"%+v (%v), %v, after %v", r, r.Cause, err, r.took)
}

// Input that nobody takes any more is not read: it may be another program's.
func TestRunLeavesInputThatNobodyTakes(t *testing.T) {
	input := bytes.NewReader(make([]byte, 10*wire.Window))
	r, err := runOn(t, []*fake.Machine{serving(refuseInput)}, func(o *Options) { o.Stdin = input })
	check.That(t, err == nil && r.Code() == 0 && input.Len() >= 9*wire.Window,
		"%d bytes are left; %+v, %v", input.Len(), r, err)
}

// eat is an agent that takes exactly this input, and returns credit as late as it can.
func eat(input []byte) func(a *fake.Agent) error {
	return func(a *fake.Agent) error {
		var got []byte
		for owed := 0; ; {
			f, err := a.Expect(wire.TypeStdin)
			if err != nil {
				return err
			}
			if len(f.Payload) == 0 {
				break
			}
			got = append(got, f.Payload...)
			if owed += wire.Cost(len(f.Payload)); owed > wire.Window {
				return fmt.Errorf("%d beyond the credit", owed-wire.Window)
			}
			if owed >= wire.Window-wire.FrameCost { // as late as can be
				if err := a.Out.SendCredit(f.Stream, owed); err != nil {
					return err
				}
				owed = 0
			}
		}
		if !bytes.Equal(got, input) {
			return fmt.Errorf("%d bytes came of %d, or not the same", len(got), len(input))
		}
		return succeed(a)
	}
}

// refuseInput is an agent whose ranks have closed their input.
func refuseInput(a *fake.Agent) error {
	if err := a.Out.SendCredit(0, 0); err != nil {
		return err
	}
	time.Sleep(time.Second)
	return succeed(a)
}

func TestInputOf(t *testing.T) {
	h := &PlannedHost{Ranks: []Rank{{Rank: 2}, {Rank: 5}}}
	for _, tc := range []struct {
		rank int
		want string
	}{{StdinAll, "[2 5]"}, {5, "[5]"}, {0, "[]"}} {
		o := Options{Stdin: bytes.NewReader(nil), StdinRank: tc.rank}
		check.Equal(t, fmt.Sprint(o.inputOf(h)), tc.want, "input for", tc.rank, "goes to")
		o.Stdin = nil
		check.That(t, o.inputOf(h) == nil, "ranks read an input that is not there")
	}
}
