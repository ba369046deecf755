package relay

import (
	"io"
	"runtime"
	"sync"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// A host's reports never go back, although several goroutines make them: the launcher fails a host
// that has less of the file than it said before.
func TestReportsGoForward(t *testing.T) {
	const last = 50_000
	in, out := io.Pipe()
	m := &member{out: wire.NewWriter(out), blob: &blob{grown: make(chan struct{})}}
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for m.blob.have() < last {
				m.say(wire.Passed{})
			}
		})
	}
	work.Go(func() {
		for n := range int64(last + 1) {
			m.blob.grow(n)
			runtime.Gosched()
		}
	})
	go func() {
		work.Wait()
		out.Close()
	}()
	before := int64(0)
	for frames := wire.NewReader(in); ; {
		f, err := frames.Next()
		if err == io.EOF {
			return
		}
		var p wire.Passed
		must.OK(t, err)
		must.OK(t, f.Expect(wire.TypePassed, &p))
		check.That(t, p.Have >= before, "%d bytes after %d", p.Have, before)
		before = p.Have
	}
}
