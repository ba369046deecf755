package kept

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/host/resident"
	"github.com/gorun/gorun/internal/net/keep"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/session"
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

// deaf is a connection to a host that runs no command.
type deaf struct{ keep.Conn }

func (*deaf) Run(context.Context, []string, io.Reader, io.Writer, io.Writer) error {
	return errors.New("the connection was lost")
}

// Nothing is kept of the connections to a host that is lost and found without end.
func TestConnectionsAreForgotten(t *testing.T) {
	quiet := func(string, ...any) {}
	stager := session.NewStager(session.Executable{Path: "/gorun", Build: "b"}, 0, quiet, session.NoMeter{})
	conn := &deaf{}
	_, err := stager.Agent(t.Context(), conn, session.Identity{})
	_, known := stager.Paths(conn)
	must.That(t, err != nil && known, "a stager knows nothing of a connection: %v", err)
	_, err = resideOn(t.Context(), conn, stager, "b")
	_, known = stager.Paths(conn)
	check.That(t, err != nil && !known, "a connection is kept: %v", err)
}
