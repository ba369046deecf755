package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/inventory"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/wire"
)

// gpuHost runs the host's half of an inventory.
type gpuHost struct {
	root  fs.FS
	paths map[string]string // where gorun is, and its build
	hang  bool              // it says its preamble and nothing more
	ran   []string
	put   bool
}

func (h *gpuHost) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	argv = fake.StartedCommand(argv)
	h.ran = append(h.ran, argv[0])
	build, found := h.paths[argv[0]]
	if !found {
		fmt.Fprintln(stderr, "not found")
		return fake.ExitStatus(127)
	}
	if argv[1] != InventoryCommand {
		return fake.ExitStatus(2)
	}
	if h.hang {
		_, _ = stdout.Write(wire.Preamble(argv[2]))
		<-ctx.Done()
		return context.Cause(ctx)
	}
	_, _ = io.WriteString(stdout, "welcome\n")
	if err := inventory.Serve(ctx, stdin, stdout, inventory.Options{Nonce: argv[2], Build: build, Sources: gpu.Sources{Root: h.root}}); err != nil {
		fmt.Fprintln(stderr, err)
		return fake.ExitStatus(CodeLaunch)
	}
	return nil
}

func (h *gpuHost) Put(context.Context, string, fs.FileMode, io.Reader) error {
	h.put = true
	return nil
}

func (h *gpuHost) Close() error { return nil }

func TestInventory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exe := testExecutable()
		here := map[string]string{exe.Path: exe.Build}
		box := fstest.MapFS{"proc/driver/nvidia/gpus/0000:07:00.0/information": {Data: []byte("Model: A\x1b[2J100\n")}}
		hosts := map[string]*gpuHost{
			"box":    {root: box, paths: here},
			"plain":  {root: fstest.MapFS{}, paths: here},
			"cached": {root: box, paths: map[string]string{exe.Path: "other", fake.CachedPath: exe.Build}},
			"hang":   {root: box, paths: here, hang: true},
			"broken": {root: fstest.MapFS{"proc/driver/nvidia/gpus/what/information": {}}, paths: here},
		}
		names := []string{"box", "plain", "down", "cached", "hang", "broken"}
		var list []hostfile.Host
		for _, name := range names {
			list = append(list, hostfile.Host{Name: name})
		}
		dial := func(_ context.Context, h hostfile.Host) (Host, error) {
			if h.Name == "down" {
				return nil, errors.New("connection refused")
			}
			return hosts[h.Name], nil
		}
		asked := make(chan struct{}, len(names))
		opts := Options{Dial: dial, Exe: exe, StartTimeout: 20 * time.Second, GPUProgram: func() ([]byte, error) { asked <- struct{}{}; return nil, nil }}
		got := ""
		for _, g := range Inventory(t.Context(), list, opts) {
			name := "-"
			for _, d := range g.Devices {
				name = d.Name
			}
			got += fmt.Sprintf("%s %s %q %v\n", g.Host.Name, name, g.Warnings, g.Err)
		}
		const none = `["neither gorun-gpu nor nvidia-smi is there to ask the driver"]`
		want := "box A?[2J100 " + none + " <nil>\nplain - [] <nil>\ndown - [] connection refused\ncached A?[2J100 " + none + " <nil>\n" +
			"hang - [] no answer within 20s (--start-timeout)\nbroken - [] list GPUs with /proc/driver/nvidia: \"what\" is not a PCI address\n"
		if got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		if len(asked) != 3 { // box, cached and broken
			t.Errorf("gorun-gpu was made %d times", len(asked))
		}
		for name, h := range hosts {
			if h.put || slices.Contains(h.ran, "gorun-gpu") {
				t.Errorf("%s was given a file", name)
			}
		}
	})
}
