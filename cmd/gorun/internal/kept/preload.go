package kept

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/gorun/gorun/cmd/gorun/internal/job"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/net/keep"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher"
)

// preloads starts warm interpreters on hosts.
type preloads struct {
	modules []string
	samples map[string]wire.Job // by host
	console *ui.UI

	mu     sync.Mutex
	failed []launcher.HostError
	begun  bool // gorun up has ended: what fails later is traced only
}

// newPreloads is for modules that ranks of a run import.
func newPreloads(ctx context.Context, o *settings.Options, modules []string, console *ui.UI) (p *preloads, err error) {
	p = &preloads{modules: modules, console: console}
	if len(modules) > 0 {
		p.samples, err = job.Samples(ctx, o, []string{"python3"}, console)
	}
	return p, err
}

// start starts the interpreter of a host, if there is something to import. Without it, ranks start
// as everywhere else.
func (p *preloads) start(ctx context.Context, host string, r *keep.Resident) {
	if len(p.modules) == 0 {
		return
	}
	printed, err := r.Preload(ctx, p.modules, p.samples[host])
	if err != nil {
		err = fmt.Errorf("preload %s: %w", strings.Join(p.modules, ", "), err)
		p.console.Tracef("%s: %v", host, err)
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.begun { // a host may be lost and fail again without end
			p.failed = append(p.failed, launcher.HostError{Host: host, Err: err})
		}
		return
	}
	if first, _, _ := strings.Cut(printed, "\n"); first != "" {
		p.console.Warningf("%s: the imports print what ranks will not: %s", host, prose.Printable(first))
	}
}

func (p *preloads) failures() []launcher.HostError {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = true
	return p.failed
}
