package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// A rank that asks to spawn others in a folder with a name of megabytes gets to know that they do
// not start: a message of that length would not be sent.
func TestFailuresToStartAreShort(t *testing.T) {
	var told eventExited
	s := &starter{step: func(e event) { told = e.(eventExited) }}
	name := strings.Repeat("\x01", wire.MaxControl/4)
	s.fail(3, wire.Refusef(wire.CodeHostFailed, "create "+name, "the working directory %s does not exist", name))
	text := must.Get(json.Marshal(wire.Exit{Failed: told.failed, Remedy: told.remedy}))(t)
	check.That(t, told.rank == 3 && told.code == wire.CodeHostFailed && len(text) < 1<<16, "%d bytes", len(text))
	check.That(t, strings.HasPrefix(told.failed, "the working directory "), "%.40q", told.failed)
}
