package probe

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

// What a host says of its address makes the report of another about their link no longer: the whole
// report of a host has a bound, beyond which it would seem to hang.
func TestErrorsOfLinksAreShort(t *testing.T) {
	p := &party{cards: []card{{Addr: "1.2.3." + strings.Repeat("\x7f", 60<<10) + ":80"}}}
	_, err := p.address(0)
	text := plain(err)
	check.That(t, err != nil && len(text) > 0 && len(text) <= maxError, "%d bytes", len(text))
}
