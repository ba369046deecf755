package kept

import (
	"context"
	"io"
	"testing"

	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/host/resident"
	"github.com/gorun/gorun/internal/net/keep"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// residing is a connection to a host whose resident agent starts no interpreter.
type residing struct{ keep.Conn }

func (residing) Run(ctx context.Context, argv []string, in io.Reader, out, _ io.Writer) error {
	return resident.Serve(ctx, argv[1], in, out, []string{"/bin/false"}, nil)
}

// A kept host that is lost and found again without end, and never preloads, takes no memory.
func TestLaterFailuresAreNotKept(t *testing.T) {
	command := func(args ...string) []string { return args }
	r := must.Get(keep.StartResident(t.Context(), residing{}, "build", command))(t)
	r.Close()
	p := &preloads{modules: []string{"json"}, console: &ui.UI{}}
	for round := range 3 {
		p.start(t.Context(), "f1", r)
		failed := len(p.failures())
		check.That(t, failed == 1, "%d failures after %d later ones", failed, round)
	}
}
