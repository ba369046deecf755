package probe

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

// The address that a host claims does not lengthen another host's report on their link. A report
// has a bound, and a host whose report is longer would seem to hang.
func TestErrorsOfLinksAreShort(t *testing.T) {
	p := &party{cards: []card{{Addr: "1.2.3." + strings.Repeat("\x7f", 60<<10) + ":80"}}}
	_, err := p.address(0)
	text := plain(err)
	check.That(t, err != nil && len(text) > 0 && len(text) <= maxError, "%d bytes", len(text))
}
