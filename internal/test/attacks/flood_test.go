package attacks

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// lateness is a writer that compares every line "tick SECONDS" with the clock and keeps the delays.
type lateness struct {
	partial string
	late    []time.Duration
	flood   int // bytes of other lines
}

func (l *lateness) Write(p []byte) (int, error) {
	now := time.Now()
	text := l.partial + string(p)
	end := strings.LastIndexByte(text, '\n') + 1
	l.partial = text[end:]
	for line := range strings.Lines(text[:end]) {
		_, clock, is := strings.Cut(line, "tick ")
		if !is {
			l.flood += len(line)
			continue
		}
		var seconds, nanos int64
		if n, _ := fmt.Sscanf(clock, "%d.%d", &seconds, &nanos); n == 2 {
			l.late = append(l.late, now.Sub(time.Unix(seconds, nanos)))
		}
	}
	return len(p), nil
}

// One rank on each host floods; the lines of another rank on the first host still arrive in time.
func TestFloodDoesNotHoldUpOthers(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	const ticks = 30
	script := fmt.Sprintf(`[ $LOCAL_RANK = 0 ] && exec yes "$(printf '%%080d' 0)"
		[ $RANK = 1 ] || exec sleep 60
		for i in $(seq %d); do date '+tick %%s.%%N'; sleep .1; done; exit 7`, ticks)
	ctx, cancel := context.WithTimeout(t.Context(), command.Limit)
	defer cancel()
	cmd := c.Command(ctx, command.Binary("gorun"), "-F", c.ConfigFile, "-np", "4", "-H", "f1:2,f2:2", "sh", "-c",
		script)
	var l lateness
	cmd.Stdout = &l
	cmd.Stderr = io.Discard
	_ = cmd.Run() // it ends with 7: the others would not
	must.That(t, cmd.ProcessState.ExitCode() == 7 && len(l.late) == ticks,
		"%v, %d lines of %d", cmd.ProcessState, len(l.late), ticks)
	slices.Sort(l.late)
	t.Logf("median %v, worst %v, beside %d MB", l.late[ticks/2], l.late[ticks-1], l.flood>>20)
	worst := l.late[ticks-1]
	check.That(t, worst <= time.Second, "a line came %v late", worst)
	check.That(t, l.flood >= 10<<20, "the flood was %d bytes only", l.flood)
}
