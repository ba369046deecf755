//go:build cgo && linux

package bench

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// Every collective runs on GPU memory, for which the stand-in libraries use the host's; a wrong
// result is counted.
func TestRunOnDevices(t *testing.T) {
	must.HaveTime(t)
	lab.Need(t, "cc")
	dir := t.TempDir()
	must.OK(t, ringtest.Standins("../../ring/internal/nccl/testdata", dir))
	t.Setenv("STANDIN_DIR", t.TempDir())
	const ranks = 3
	door := ringtest.NewJob(t, ranks)
	comms := make([]*ring.Comm, ranks)
	ringtest.All(t, ranks, func(rank int) (err error) {
		env := append(door.Environ(rank), "RING_CUDA_LIB="+filepath.Join(dir, "libcuda.so.1"), "RING_NCCL_LIB="+
			filepath.Join(dir, "libnccl.so.2"))
		comms[rank], err = ring.Init(t.Context(), ring.WithEnviron(ringtest.Lookup(env)))
		return err
	})
	for _, collective := range Collectives() {
		if collective == Barrier {
			continue // it has no memory
		}
		opts := Options{
			Collective: collective,
			Types:      []string{"all"},
			Min:        96,
			Max:        480,
			Factor:     5,
			Budget:     time.Microsecond,
			Device:     "cuda",
		}
		rows := make([]int, ranks)
		err := ringtest.Each(ranks, func(rank int) error {
			return Run(t.Context(), comms[rank], opts, func(r Row) {
				rows[rank]++
				check.That(t, r.Wrong == 0 && r.Median > 0 && r.BusBW > 0 && strings.HasPrefix(r.Device, "NCCL "),
					"%+v", r)
			})
		})
		check.That(t, err == nil && rows[0] >= 2*len(Types()) && rows[0] == rows[1],
			"%s: %v rows, %v", collective, rows, err)
	}
	for _, c := range comms {
		c.Close()
	}
}

func TestOrdinal(t *testing.T) {
	for _, tt := range []struct {
		localRank int
		visible   string
		set       bool
		want      int
	}{{3, "", false, 3}, {0, "GPU-1", true, 0}, {3, "GPU-1", true, 0}, {3, "4,5", true, 1}, {1, "4,5", true, 1}} {
		check.Equal(t, ordinal(tt.localRank, tt.visible, tt.set), tt.want, tt)
	}
}
