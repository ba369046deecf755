package launcher

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/inventory"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher/session"
)

// InventoryCommand is the hidden command with which gorun reports a host's GPUs; its argument is the nonce.
const InventoryCommand = "__gpus"

// GPUs are those of one host.
type GPUs struct {
	Host hostfile.Host
	gpu.Inventory
	Err error // nil: the host was asked, and has these
}

// Inventory asks all hosts side by side for their GPUs, with opts' Dial, Exe, StartTimeout, Trace and GPUProgram, which all
// hosts with GPUs are sent. Nothing is left running, and gorun
// alone is left there. The answer is in the order of hosts.
func Inventory(ctx context.Context, hosts []hostfile.Host, opts Options) []GPUs {
	if opts.GPUProgram == nil {
		opts.GPUProgram = func() ([]byte, error) { return nil, nil }
	}
	all := make([]GPUs, len(hosts))
	onAll(ctx, hosts, opts, func(ctx context.Context, i int, conn Host, stager *session.Stager) error {
		return stager.Start(ctx, conn, func(path string) error {
			return stager.Converse(ctx, conn, path, InventoryCommand, func(feed io.WriteCloser, out io.Reader) (err error) {
				all[i].Inventory, err = inventory.Ask(feed, out, opts.Exe.Build, opts.GPUProgram)
				if errors.Is(err, inventory.ErrOtherBuild) {
					err = &session.NoAgentError{Path: path, Err: session.ErrOtherBuild}
				}
				return err
			})
		})
	}, func(i int, _ time.Duration, err error) {
		all[i].Host, all[i].Err = hosts[i], err
		sanitize(&all[i].Inventory)
	})
	return all
}

// sanitize removes control characters from a host's inventory.
func sanitize(inv *gpu.Inventory) {
	for i, w := range inv.Warnings {
		inv.Warnings[i] = prose.Printable(w)
	}
	for i := range inv.Devices {
		d := &inv.Devices[i]
		for _, text := range []*string{&d.UUID, &d.BusID, &d.Name, &d.CPUs} {
			*text = prose.Printable(*text)
		}
		for j := range d.MIG {
			d.MIG[j].UUID, d.MIG[j].Profile = prose.Printable(d.MIG[j].UUID), prose.Printable(d.MIG[j].Profile)
		}
	}
}
