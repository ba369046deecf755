package ring

import (
	"testing"

	"github.com/gorun/gorun/internal/sight/recorder"
	"github.com/gorun/gorun/internal/test/check"
)

// Readers of a record name its kinds without this package.
func TestRecordedKindsHaveTheirNames(t *testing.T) {
	for k := KindBarrier; k <= KindMessage; k++ {
		check.Equal(t, recorder.KindName(int(k)), k.String(), k, "is recorded as")
	}
}
