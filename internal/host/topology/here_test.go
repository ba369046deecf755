package topology

import (
	"runtime"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestSetAffinity(t *testing.T) {
	all, err := Affinity()
	must.That(t, err == nil && len(all) != 0, "%v, %v", all, err)
	m, err := Here()
	must.That(t, err == nil && len(m) == len(all), "%v is all that %v may be, %v", m, all, err)
	cores := Cores()
	check.That(t, cores >= 1 && cores <= len(all), "%d cores of %d hardware threads", cores, len(all))
	last := Set{all[len(all)-1]}
	type answer struct {
		set Set
		err error
	}
	bound := make(chan answer)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		err := SetAffinity(last)
		set, readErr := Affinity()
		if err == nil {
			err = readErr
		}
		bound <- answer{set, err}
	}()
	got := <-bound
	check.That(t, got.err == nil && got.set.String() == last.String(), "bound to %s: %s, %v", last, got.set, got.err)
	check.That(t, SetAffinity(nil) != nil, "bound to nothing")
}
