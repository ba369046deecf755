package jobs

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// A hostile host may report as many pauses of its ranks, and pieces of a byte, as it likes. While a
// pager takes nothing, few of them wait.
func TestRecordsThatWaitAreBounded(t *testing.T) {
	for name, data := range map[string]string{"pauses": "", "pieces of a byte": "x"} {
		pager, out := io.Pipe()
		s := must.Get(newShow(control.Job{Size: 2}, View{}, out, io.Discard))(t)
		must.OK(t, s.record(control.Record{FD: 1, Data: []byte("a line\n")}))
		var taken atomic.Int64
		ended := make(chan error)
		const most = 1 << 20
		go func() {
			for range most {
				if err := s.record(control.Record{Rank: 1, FD: 1, Data: []byte(data)}); err != nil {
					ended <- err
					return
				}
				taken.Add(1)
			}
			ended <- nil
		}()
		before := int64(-1)
		for before != taken.Load() {
			before = taken.Load()
			time.Sleep(200 * time.Millisecond)
		}
		check.That(t, before < 1<<14, "%d %s wait for the pager", before, name)
		pager.Close()
		<-ended
		_ = s.close()
	}
}
