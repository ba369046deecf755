package settings

import (
	"github.com/gorun/gorun/internal/usage"
)

// Hang is what happens to a job that makes no progress.
type Hang struct {
	Timeout Seconds // 0: it is not watched
	On      string  // "report" or "kill"
}

func (h *Hang) check() error {
	switch {
	case h.On != "report" && h.On != "kill":
		return usage.Errorf("for example --hang-timeout 10m --on-hang kill", "--on-hang %q: expected report or kill",
			usage.Clipped(h.On))
	case h.On == "kill" && h.Timeout <= 0:
		return usage.Errorf("for example --hang-timeout 10m --on-hang kill", "--on-hang kill needs --hang-timeout")
	}
	return nil
}
