package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/usage"
)

// Signal is a signal by name or number: TERM, SIGTERM, 15.
type Signal syscall.Signal

func (s *Signal) Type() string { return "signal" }

func (s *Signal) String() string {
	if *s == 0 {
		return ""
	}
	return strings.TrimPrefix(unix.SignalName(syscall.Signal(*s)), "SIG")
}

func (s *Signal) Set(text string) error {
	number, err := strconv.Atoi(text)
	if err != nil {
		number = int(unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(text), "SIG")))
	}
	if number < 1 || number > 64 {
		var names []string
		for n := range syscall.Signal(32) {
			names = append(names, strings.TrimPrefix(unix.SignalName(n), "SIG"))
		}
		hint := "kill -l lists all"
		if near := usage.Similar(strings.TrimPrefix(strings.ToUpper(text), "SIG"), names); near != "" {
			hint = "did you mean " + near + "?"
		}
		return usage.Errorf(hint, "there is no such signal; expected TERM, KILL, USR1 or the like, or a number")
	}
	*s = Signal(number)
	return nil
}

// Warning is a signal that ranks get some time before the job's time limit. The zero value is none.
type Warning struct {
	Signal Signal
	Before Seconds
}

func (w *Warning) Type() string { return "signal" }

func (w *Warning) String() string {
	if w.Signal == 0 {
		return ""
	}
	return w.Signal.String() + "@" + w.Before.String()
}

// Set reads SIGNAL@TIME. As in srun, the time is 60 s where it is left out, and R: may precede; as
// in flux, the signal is USR1 where it is left out.
func (w *Warning) Set(text string) error {
	if strings.HasPrefix(text, "B:") {
		return errors.New("with B: only the batch script gets the signal; give it to sbatch")
	}
	name, before, timed := strings.Cut(strings.TrimPrefix(text, "R:"), "@")
	set := Warning{Before: Seconds(time.Minute)}
	if name == "" && timed { // flux
		name = "USR1"
	}
	if err := set.Signal.Set(name); err != nil {
		return err
	}
	if timed {
		if err := set.Before.Set(before); err != nil {
			return fmt.Errorf("the time: %w", err)
		}
	}
	*w = set
	return nil
}

// After returns how long after now the warning comes: before the end of the job's time limit, or
// before the end of the surrounding Slurm job, whichever is earlier. Without a limit, limited is
// false.
func (w Warning) After(timeout time.Duration, now time.Time, getenv func(string) string) (after time.Duration,
	limited bool) {
	left := timeout
	if end, err := strconv.ParseInt(getenv("SLURM_JOB_END_TIME"), 10, 64); err == nil {
		if slurm := time.Unix(end, 0).Sub(now); left == 0 || slurm < left {
			left = slurm
			limited = true
		}
	}
	return max(0, left-time.Duration(w.Before)), limited || timeout > 0
}

// CheckWarning reports a warning that would come before the job begins.
func (o *Options) CheckWarning() error {
	if o.Warn.Signal == 0 || o.Timeout == 0 || o.Warn.Before < o.Timeout {
		return nil
	}
	later := Warning{Signal: o.Warn.Signal, Before: o.Timeout / 2}
	return faultOf("warn-signal", "warn later, for example --warn-signal "+later.String(),
		"%v: the job has no more time than that: --timeout %v", &o.Warn, &o.Timeout)
}
