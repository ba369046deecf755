package hosts

import (
	"context"
	"time"

	"github.com/gorun/gorun/internal/cli/settings"
	"github.com/gorun/gorun/internal/cli/usage"
)

// discover runs the discovery script once and returns its hosts.
func discover(ctx context.Context, o *settings.Options) (Selection, error) {
	ctx, cancel := context.WithTimeout(ctx, max(time.Duration(o.StartTimeout), time.Second))
	defer cancel()
	hosts, err := o.Elastic.Discoverer()(ctx)
	if err != nil {
		return Selection{}, usage.Errorf("it must print a host per line, such as f1:2, and end with 0", "--host-discovery-script %s: %w", o.Elastic.Discovery, err)
	}
	return Selection{Hosts: hosts, Source: "the discovery script " + o.Elastic.Discovery}, nil
}
