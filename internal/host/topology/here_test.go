package topology

import (
	"runtime"
	"testing"
)

func TestSetAffinity(t *testing.T) {
	all, err := Affinity()
	if err != nil || len(all) == 0 {
		t.Fatalf("%v, %v", all, err)
	}
	m, err := Here()
	if err != nil || len(m) != len(all) {
		t.Fatalf("%v is all that %v may be, %v", m, all, err)
	}
	if cores := Cores(); cores < 1 || cores > len(all) {
		t.Errorf("%d cores of %d hardware threads", cores, len(all))
	}
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
	if got := <-bound; got.err != nil || got.set.String() != last.String() {
		t.Errorf("bound to %s: %s, %v", last, got.set, got.err)
	}
	if SetAffinity(nil) == nil {
		t.Error("bound to nothing")
	}
}
