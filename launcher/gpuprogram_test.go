package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/elastic"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/plan"
)

// receiver is a host that keeps the program which it is sent.
type receiver struct {
	fake.Machine
	program []byte
	pieces  int
}

func newReceiver(lacks, partitioned bool) *receiver {
	r := &receiver{Machine: fake.Machine{Lacks: lacks, Partitioned: partitioned,
		Disk: fake.NewDisk(map[string]string{"/opt/gorun": "build one"})}}
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
	for name, tt := range map[string]struct {
		wish    GPURequest
		program func() ([]byte, error)
		want    string // who is sent it
		made    bool
		traced  string
	}{
		"one each": {GPURequest{PerRank: 1}, func() ([]byte, error) {
			return program, nil
		}, "lacks mig", true, "lacks: sent gorun-gpu: 131172 bytes"},
		"auto": {GPURequest{}, func() ([]byte, error) {
			return program, nil
		}, "mig", true, "mig: sent gorun-gpu"},
		"left alone":    {GPURequest{Leave: true}, func() ([]byte, error) { return program, nil }, "", false, ""},
		"there is none": {GPURequest{PerRank: 1}, func() ([]byte, error) { return nil, nil }, "", true, ""},
		"unreadable": {GPURequest{PerRank: 1}, func() ([]byte, error) {
			return program[:9], broken
		}, "", true, "lacks: gorun-gpu is not sent: permission denied"},
		"no way": {GPURequest{PerRank: 1}, nil, "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				names := []string{"lacks", "has", "mig", "hasmig"}
				hosts := map[string]*receiver{"lacks": newReceiver(true, false), "has": newReceiver(false, false),
					"mig": newReceiver(true, true), "hasmig": newReceiver(false, true)}
				var list []hostfile.Host
				for _, name := range names {
					list = append(list, hostfile.Host{Name: name, Slots: 1})
				}
				plan, err := plan.New(list, Request{})
				must.OK(t, err)
				var mu sync.Mutex
				made := 0
				traced := ""
				opts := Options{
					Programs: []Program{{Argv: []string{"./train"}, Wdir: "/work", Ranks: plan.Size}},
					Stdout:   &fake.Terminal{},
					Stderr:   &fake.Terminal{},
					GPUs:     tt.wish,
					Reach: Reach{
						Dial: func(_ context.Context, h hostfile.Host) (Host, error) { return hosts[h.Name], nil },
						Exe:  testExecutable(),
						Trace: func(format string, args ...any) {
							mu.Lock()
							defer mu.Unlock()
							traced += fmt.Sprintf(format, args...) + "\n"
						},
					},
				}
				if tt.program != nil {
					opts.GPUProgram = func() ([]byte, error) {
						mu.Lock()
						defer mu.Unlock()
						made++
						return tt.program()
					}
				}
				if r, err := Run(t.Context(), plan, opts); err != nil || r.Code() != 0 {
					t.Fatalf("%+v, %v", r, err)
				}
				var sent []string
				for _, name := range names {
					if h := hosts[name]; h.pieces > 0 {
						sent = append(sent, name)
						check.That(t, h.pieces == 3 && bytes.Equal(h.program, program),
							"%s got %d bytes in %d pieces", name, len(h.program), h.pieces)
					}
				}
				if got := strings.Join(sent, " "); got != tt.want || (made > 0) != tt.made {
					t.Errorf("sent to %q, want %q; made %d times", got, tt.want, made)
				}
				if !strings.Contains(traced, tt.traced) || tt.traced == "" && strings.Contains(traced, "gorun-gpu") {
					t.Errorf("traced %s", traced)
				}
			})
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
		synctest.Test(t, func(t *testing.T) {
			h := newReceiver(tt.lacks, false)
			h.Reached = "192.0.2.1"
			opts := Options{
				Programs: []Program{{Argv: []string{"./train"}, Wdir: "/work"}},
				GPUs:     tt.wish,
				Reach: Reach{
					Exe:        testExecutable(),
					GPUProgram: func() ([]byte, error) { return []byte("program"), nil },
				},
			}
			opts.setDefaults()
			j, err := newElasticJob(Elastic{ElasticDriver: ElasticDriver{Min: 1, Max: 1, NP: 1}}, opts)
			must.OK(t, err)
			at := hostfile.Host{Name: "f1", Slots: 1}
			p := &elasticProcess{born: elastic.Member{Size: 1, LocalSize: 1}, host: &elasticHost{host: at}}
			s, err := j.launch(t.Context(), p, at, h)
			must.OK(t, err)
			s.Close()
			j.endLife(nil)
			if time.Sleep(time.Second); string(h.program) != tt.want {
				t.Errorf("%+v: sent %q, want %q", tt, h.program, tt.want)
			}
		})
	}
}
