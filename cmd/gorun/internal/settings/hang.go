package settings

import (
	"github.com/gorun/gorun/internal/usage"
)

// Hang is the reaction to a job without progress.
type Hang struct {
	Timeout Seconds // 0: no watch for hangs
	On      string  // "report" or "kill"
}

func (h *Hang) check() error {
	switch {
	case h.On != "report" && h.On != "kill":
		return faultOf("on-hang", "for example --hang-timeout 10m --on-hang kill",
			"%q: expected report or kill", usage.Clipped(h.On))
	case h.On == "kill" && h.Timeout <= 0:
		return faultOf("on-hang", "for example --hang-timeout 10m --on-hang kill", "kill needs --hang-timeout")
	}
	return nil
}
