// Package inventory brings what a host knows of its GPUs to the launcher, through any two pipes. Where the
// host shows GPUs it is sent the gorun-gpu program, which it runs from memory: hosts keep nothing, and those without
// GPUs are sent nothing.
//
// The host says its preamble and a greeting; the launcher answers with the program, compressed, or with nothing, and
// ends its half; the host says the inventory. Greeting and inventory are JSON, one line each.
package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/memexec"
	"github.com/gorun/gorun/internal/wire"
)

const maxInventory = 8 << 20

// ErrOtherBuild is the cause when another gorun answered on the host.
var ErrOtherBuild = errors.New("another build of gorun is there")

type greeting struct {
	Build string `json:"build"`
	Want  bool   `json:"want"` // gorun-gpu: there are GPUs
}

type reply struct {
	gpu.Inventory
	Error string `json:"error,omitempty"`
}

// Options say how a host's half was started.
type Options struct {
	Nonce   string // from the command line; marks the start of what counts
	Build   string // content id of this executable
	Sources gpu.Sources
}

// Serve is the host's half. The launcher is told of an error, too.
func Serve(ctx context.Context, in io.Reader, out io.Writer, opts Options) error {
	if _, err := out.Write(wire.Preamble(opts.Nonce)); err != nil {
		return err
	}
	say := json.NewEncoder(out)
	want := gpu.Present(opts.Sources.Root)
	if err := say.Encode(greeting{opts.Build, want}); err != nil {
		return err
	}
	inv, err := look(ctx, in, opts.Sources, want)
	r := reply{Inventory: inv}
	if err != nil {
		r.Error = err.Error()
	}
	return errors.Join(err, say.Encode(r))
}

// look reads the program, if it comes, and asks all sources.
func look(ctx context.Context, in io.Reader, s gpu.Sources, want bool) (inv gpu.Inventory, err error) {
	var warning string
	if want {
		program, err := memexec.Receive("gorun-gpu", in)
		if err != nil {
			warning = err.Error() // other sources may do
		}
		if program != nil {
			defer program.Close()
			s.Memory = program
		}
	}
	inv, err = gpu.Details(ctx, s)
	if warning != "" {
		inv.Warnings = append(inv.Warnings, warning)
	}
	return inv, err
}

// Ask is the launcher's half, for a host that has said its preamble. program makes the compressed gorun-gpu, nil where there is
// none; it is called only for a host with GPUs.
func Ask(to io.WriteCloser, from io.Reader, build string, program func() ([]byte, error)) (gpu.Inventory, error) {
	words := json.NewDecoder(io.LimitReader(from, maxInventory))
	var g greeting
	if err := words.Decode(&g); err != nil {
		return gpu.Inventory{}, fmt.Errorf("read its greeting: %w", err)
	}
	if g.Build != build {
		return gpu.Inventory{}, ErrOtherBuild
	}
	if g.Want {
		packed, err := program()
		if err != nil {
			return gpu.Inventory{}, err
		}
		if _, err := to.Write(packed); err != nil {
			return gpu.Inventory{}, fmt.Errorf("send gorun-gpu: %w", err)
		}
	}
	if err := to.Close(); err != nil {
		return gpu.Inventory{}, fmt.Errorf("send gorun-gpu: %w", err)
	}
	var r reply
	if err := words.Decode(&r); err != nil {
		return gpu.Inventory{}, fmt.Errorf("read its inventory: %w", err)
	}
	if r.Error != "" {
		return gpu.Inventory{}, errors.New(r.Error)
	}
	return r.Inventory, nil
}
