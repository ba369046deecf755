package launcher

import (
	"context"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/prose"
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

// Noticer is a [Host] with a notice for the user, such as an unusual way of reaching it. "" means
// no notice.
type Noticer interface{ Notice() string }

// notices returns the hosts' notices; hosts with equal notices share a line. It is pure.
func notices(planned []PlannedHost, hosts []Host) (lines []string) {
	var texts []string
	names := map[string][]string{}
	for i, h := range hosts {
		n, ok := h.(Noticer)
		if !ok || n.Notice() == "" {
			continue
		}
		text := n.Notice()
		if names[text] == nil {
			texts = append(texts, text)
		}
		names[text] = append(names[text], planned[i].Name)
	}
	for _, text := range texts {
		lines = append(lines, prose.List(names[text])+": "+text)
	}
	return lines
}
