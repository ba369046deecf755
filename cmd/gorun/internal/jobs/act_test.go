package jobs

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// A gorun that is stopped takes connections, as a gorun of another kind may, and answers nothing.
// Commands that are about its job end.
func TestSilentGorunIsNotAwaited(t *testing.T) {
	place := control.Place{Runtime: filepath.Join(t.TempDir(), "gorun"), Host: "here"}
	must.OK(t, os.Mkdir(place.Runtime, 0o700))
	socket := net.UnixAddr{Name: filepath.Join(place.Runtime, "a2b3@here.sock"), Net: "unix"}
	silent := must.Get(net.ListenUnix("unix", &socket))(t)
	t.Cleanup(func() { silent.Close() })
	for name, act := range map[string]func(ctx context.Context) error{
		"kill": func(ctx context.Context) error { return Kill(ctx, place, "a2b3", 0, nil) },
		"logs": func(ctx context.Context) error {
			return Logs(ctx, place, "a2b3", View{}, false, io.Discard, io.Discard)
		},
		"attach": func(ctx context.Context) error {
			_, err := Attach(ctx, place, "a2b3", View{}, nil, io.Discard, io.Discard, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			check.Error(act(ctx)).Says(t, "cannot be reached: its gorun does not answer")
		})
	}
}
