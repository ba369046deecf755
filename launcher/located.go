package launcher

import (
	"context"

	"github.com/gorun/gorun/hostfile"
)

// LocatedError is why a host failed, with what [Options.Where] says about the host.
type LocatedError struct {
	error
	Where string
}

func (e *LocatedError) Error() string { return e.error.Error() + " (" + e.Where + ")" }

func (e *LocatedError) Unwrap() error { return e.error }

// located adds to an error of a host what is known about that host.
func (o *Options) located(host string, err error) error {
	if o.Where == nil {
		return err
	}
	if where := o.Where(host); where != "" {
		return &LocatedError{err, where}
	}
	return err
}

func (o *Options) dialLocated(ctx context.Context, h hostfile.Host) (Host, error) {
	host, err := o.Dial(ctx, h)
	if err != nil {
		return nil, o.located(h.Name, err)
	}
	return host, nil
}
