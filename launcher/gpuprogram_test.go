package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
)

// receiver is a host that keeps the program which it is sent.
type receiver struct {
	fake.Machine
	program []byte
	pieces  int
}

func newReceiver(lacks, partitioned bool) *receiver {
	r := &receiver{Machine: fake.Machine{Lacks: lacks, Partitioned: partitioned}}
	r.Serve = func(a *fake.Agent) error {
		for {
			f, err := a.Frames.Next()
			switch {
			case err != nil:
				return nil
			case f.Type == wire.TypeProgram:
				r.program = append(r.program, f.Payload...)
				r.pieces++
			case f.Type == wire.TypeJob:
				if err := f.Decode(&a.Job); err != nil {
					return err
				}
				if err := a.Out.SendMessage(wire.TypeReady, wire.Ready{FreePort: 4000}); err != nil {
					return err
				}
			case f.Type == wire.TypeStart:
				return succeed(a)
			}
		}
	}
	return r
}

// Hosts get the program before the job, whole, and only where it is missing and of use. It is made
// when a host asks first.
func TestGPUProgramIsSentToThoseWhoLackIt(t *testing.T) {
	program := make([]byte, 2*wire.MaxData+100)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(program)
	broken := errors.New("permission denied")
	whole := func() ([]byte, error) { return program, nil }
	for name, tt := range map[string]struct {
		wish    GPURequest
		program func() ([]byte, error)
		want    string // who is sent it
		made    bool
		traced  string
	}{
		"one each":      {GPURequest{PerRank: 1}, whole, "h0 h2", true, "h0: sent gorun-gpu: 131172 bytes"},
		"auto":          {GPURequest{}, whole, "h2", true, "h2: sent gorun-gpu"},
		"left alone":    {GPURequest{Leave: true}, whole, "", false, ""},
		"there is none": {GPURequest{PerRank: 1}, func() ([]byte, error) { return nil, nil }, "", true, ""},
		"unreadable": {GPURequest{PerRank: 1}, func() ([]byte, error) {
			return program[:9], broken
		}, "", true, "h0: gorun-gpu is not sent: permission denied"},
		"no way": {GPURequest{PerRank: 1}, nil, "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			// they lack it or have it, with a whole GPU and with instances
			hosts := []*receiver{newReceiver(true, false), newReceiver(false, false), newReceiver(true, true),
				newReceiver(false, true)}
			var machines []*fake.Machine
			for _, h := range hosts {
				machines = append(machines, &h.Machine)
			}
			var mu sync.Mutex
			made := 0
			traced := ""
			r, err := runOn(t, machines, func(o *Options) {
				o.GPUs = tt.wish
				o.Trace = func(format string, args ...any) {
					mu.Lock()
					defer mu.Unlock()
					traced += fmt.Sprintf(format, args...) + "\n"
				}
				if tt.program != nil {
					o.GPUProgram = func() ([]byte, error) {
						mu.Lock()
						defer mu.Unlock()
						made++
						return tt.program()
					}
				}
			})
			succeeds(t, r.Result, err)
			var sent []string
			for i, h := range hosts {
				if h.pieces > 0 {
					sent = append(sent, fmt.Sprint("h", i))
					check.That(t, h.pieces == 3 && bytes.Equal(h.program, program),
						"h%d got %d bytes in %d pieces", i, len(h.program), h.pieces)
				}
			}
			if got := strings.Join(sent, " "); got != tt.want || (made > 0) != tt.made {
				t.Errorf("sent to %q, want %q; made %d times", got, tt.want, made)
			}
			check.That(t, strings.Contains(traced, tt.traced) &&
				(tt.traced != "" || !strings.Contains(traced, "gorun-gpu")), "traced %s", traced)
		})
	}
}

// Each process of an elastic job has an agent of its own, which is sent it.
func TestGPUProgramForProcessesOfElasticJobs(t *testing.T) {
	for _, tt := range []struct {
		lacks bool
		wish  GPURequest
		want  string
	}{{true, GPURequest{PerRank: 1}, "program"}, {true, GPURequest{}, ""}, {false, GPURequest{PerRank: 1}, ""}} {
		h := newReceiver(tt.lacks, false)
		settings := elasticOf(1, hostfile.Host{Name: "h0", Slots: 1})
		r, err := elasticJobOn(t, &h.Machine, settings, func(o *Options) {
			o.GPUs = tt.wish
			o.GPUProgram = func() ([]byte, error) { return []byte("program"), nil }
		})
		succeeds(t, r, err)
		check.Equal(t, string(h.program), tt.want, tt)
	}
}
