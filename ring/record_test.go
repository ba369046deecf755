package ring

import (
	"testing"

	"github.com/gorun/gorun/internal/sight/recorder"
)

// Readers of a record name its kinds without this package.
func TestRecordedKindsHaveTheirNames(t *testing.T) {
	for k := KindBarrier; k <= KindMessage; k++ {
		if name := recorder.KindName(int(k)); name != k.String() {
			t.Errorf("%v is recorded as %s", k, name)
		}
	}
}
