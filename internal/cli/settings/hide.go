package settings

import "errors"

// hidden is a bit set of the ranks' streams that the terminal does not show.
type hidden uint8

// The bits of hidden.
const (
	hideStdout hidden = 1
	hideStderr hidden = 2
	hideAll           = hideStdout | hideStderr
)

func (h *hidden) Type() string { return "stream" }

func (h *hidden) String() string { return [...]string{"none", "stdout", "stderr", "all"}[*h&hideAll] }

func (h *hidden) Set(text string) error {
	for _, other := range []hidden{0, hideStdout, hideStderr, hideAll} {
		if other.String() == text {
			*h = other
			return nil
		}
	}
	return errors.New("expected stdout, stderr, all or none")
}

// Of reports whether stdout (fd 1) or stderr (fd 2) is hidden.
func (h hidden) Of(fd int) bool { return h>>(fd-1)&1 != 0 }

// Shown combines --show and --hide into a launcher.Options.Show; nil shows everything.
func Shown(ranks func(rank int) bool, h hidden) func(rank, fd int) bool {
	if ranks == nil && h == 0 {
		return nil
	}
	return func(rank, fd int) bool { return (ranks == nil || ranks(rank)) && !h.Of(fd) }
}
