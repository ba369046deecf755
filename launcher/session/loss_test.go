package session

import (
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/launcher/plan"
)

func TestExplainLoss(t *testing.T) {
	killed := exec.Command("sh", "-c", "kill -9 $$").Run()
	for _, tc := range []struct {
		name      string
		err, ran  error
		said      string
		explained string
	}{
		{"the lease", io.EOF, fake.ExitStatus(125), "gorun agent: ended the ranks: no word from gorun for 1m0s",
			"the agent ended the ranks: no word from gorun for 1m0s"},
		{"the lease, after noise", io.EOF, fake.ExitStatus(125), "Warning: x; gorun agent: ended the ranks: y",
			"the agent ended the ranks: y"},
		{"killed, and its guard swept up", io.EOF, fake.ExitStatus(201), "",
			"the agent was killed by signal 9 (SIGKILL)"},
		{"killed on another host", io.EOF, fake.ExitStatus(137), "", "the agent was killed or failed (exit code 137)"},
		{"failed, with a word", io.EOF, fake.ExitStatus(1), "no space",
			"the agent was killed or failed (exit code 1): no space"},
		{"killed on this machine", io.EOF, killed, "", "the agent was killed by signal 9 (SIGKILL)"},
		{"the network", io.EOF, errors.New("connection reset by peer"), "",
			"lost the connection to the agent: connection reset by peer"},
		{"no reason", io.EOF, nil, "", "the agent ended too early"},
		{"no frames", errors.New("malformed frame"), nil, "", "malformed frame"},
	} {
		check.Equal(t, explainLoss(tc.err, tc.ran, tc.said).Error(), tc.explained, tc.name)
	}
}

// Messages end with what a host says.
func TestHostsGiveAReason(t *testing.T) {
	const none = "no reason given"
	for _, silent := range []string{"", " \n"} {
		check.Error(ExplainFailing(wire.Failing{Signal: silent})).Says(t, "there: "+none)
		lost := wire.Lost{By: 3, Rank: 3, Cause: silent}
		v := validator{identity: Identity{Host: &plan.Host{Ranks: []plan.Rank{{Rank: 3}}}}}
		check.OK(t, v.CheckLost(&lost, 4))
		check.Equal(t, lost.Cause, none)
	}
	check.Equal(t, ExplainFailing(wire.Failing{Broken: "\n"}).Error(), none)
}

func TestAgentsStoryIsBounded(t *testing.T) {
	err := ExplainFailing(wire.Failing{Signal: strings.Repeat("once upon a time\x1b[2J\n", 1<<18)})
	if text := err.Error(); len(text) > 5<<10 || strings.Contains(text, "\x1b") ||
		!strings.Contains(text, " bytes left out)") {
		t.Errorf("%d bytes: %.100q ... %q", len(text), text, text[max(0, len(text)-40):])
	}
}
