//go:build cgo && linux

package ring_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// The tests of this file's family run on stand-ins for libcuda and libnccl
// (internal/nccl/testdata), for which the memory of the GPU is the host's. What they are told to do
// wrong is in the environment.

// standins is where those of this process are; main removes it.
func standins(t testing.TB, flags ...string) string {
	t.Helper()
	lab.Need(t, "cc")
	standin.once.Do(func() {
		if standin.dir, standin.err = os.MkdirTemp("", "ring-standin-"); standin.err == nil {
			standin.err = ringtest.Standins("internal/nccl/testdata", standin.dir)
		}
	})
	must.That(t, standin.err == nil, "%v", standin.err)
	return standin.dir
}

// deviceJob is a job whose ranks have devices.
type deviceJob struct {
	*ringtest.Job
	dir  string   // of the stand-ins
	more []string // of the environment of all ranks
	own  map[int][]string
}

func newDeviceJob(t testing.TB, size int, more ...string) *deviceJob {
	t.Helper()
	j := &deviceJob{
		Job:  ringtest.NewJob(t, size),
		dir:  standins(t),
		more: more,
		own:  map[int][]string{},
	}
	j.Transport = "shm"
	t.Setenv("STANDIN_DIR", t.TempDir())
	return j
}

func (j *deviceJob) environ(rank int) []string {
	env := append(j.Environ(rank), "RING_CUDA_LIB="+filepath.Join(j.dir, "libcuda.so.1"), "RING_NCCL_LIB="+
		filepath.Join(j.dir, "libnccl.so.2"))
	return append(append(env, j.more...), j.own[rank]...)
}

// comms are the ranks as goroutines.
func (j *deviceJob) comms(t testing.TB, opts ...ring.Option) []*ring.Comm {
	t.Helper()
	comms := make([]*ring.Comm, j.Size)
	err := ringtest.Each(j.Size, func(rank int) (err error) {
		all := append([]ring.Option{ring.WithEnviron(last(j.environ(rank)))}, opts...)
		comms[rank], err = ring.Init(ctx, all...)
		return err
	})
	t.Cleanup(func() { closeAll(comms) })
	must.OK(t, err)
	return comms
}

// last finds names in an environment in which the last of two counts.
func last(environ []string) func(string) (string, bool) {
	back := make([]string, len(environ))
	for i, e := range environ {
		back[len(environ)-1-i] = e
	}
	return ringtest.Lookup(back)
}

// devices gives each rank a device.
func devices(t testing.TB, comms []*ring.Comm, opts ...ring.DeviceOption) []*ring.Device {
	t.Helper()
	all := make([]*ring.Device, len(comms))
	err := ringtest.Each(len(comms), func(rank int) (err error) {
		all[rank], err = ring.NewDevice(ctx, comms[rank], rank, opts...)
		return err
	})
	t.Cleanup(func() { closeDevices(t, all) })
	must.OK(t, err)
	return all
}

func closeDevices(t testing.TB, all []*ring.Device) {
	ringtest.All(t, len(all), func(rank int) error {
		if all[rank] == nil {
			return nil
		}
		return all[rank].Close()
	})
}

// memory is room for n elements on a device.
func memory(t testing.TB, d *ring.Device, bytes int) uintptr {
	t.Helper()
	at := must.Get(d.Alloc(max(bytes, 8)))(t)
	t.Cleanup(func() { _ = d.Free(at) }) // before the device is closed
	return at
}

// deviceWay is how data may go.
type deviceWay struct {
	name   string
	native bool
	env    []string
	harm   map[string]string
}

func deviceWays() []deviceWay {
	return []deviceWay{
		{name: "nccl", native: true},
		{name: "nccl-in-progress", native: true, harm: map[string]string{"STANDIN_POLLS": "*:3",
			"STANDIN_SLOW_COPY": "300"}},
		{name: "host", env: []string{"RING_DEVICE=host"}, harm: map[string]string{"STANDIN_SLOW_COPY": "300"}},
	}
}

// onDevices runs test on every way, with some numbers of ranks.
func onDevices(t *testing.T, sizes []int, test func(t *testing.T, all []*ring.Device)) {
	for _, caller := range deviceWays() {
		for i, size := range sizes {
			if caller.name == "nccl-in-progress" && i != len(sizes)/2 || raceEnabled && caller.harm != nil &&
				i != len(sizes)/2 {
				continue // all of them would take long
			}
			t.Run(fmt.Sprintf("%s/ranks=%d", caller.name, size), func(t *testing.T) {
				for name, value := range caller.harm {
					t.Setenv(name, value)
				}
				all := devices(t, newDeviceJob(t, size, caller.env...).comms(t))
				for rank, d := range all {
					check.That(t, d.Native() == caller.native, "rank %d goes by %v", rank, d)
				}
				test(t, all)
			})
		}
	}
}
