package secure

import (
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

func TestVerdict(t *testing.T) {
	const long = Silence
	const short = Silence - 100*time.Millisecond
	for name, c := range map[string]struct {
		health
		dead bool
	}{
		"idle":                             {health{lastHeard: time.Hour}, false},
		"sent just now":                    {health{outstanding: 9, lastHeard: time.Hour}, false},
		"acknowledges late":                {health{outstanding: 9, retries: 4, lastHeard: short}, false},
		"acknowledges nothing":             {health{outstanding: 9, retries: 4, lastHeard: long}, true},
		"lost a segment after a silence":   {health{outstanding: 1, retries: 2, lastHeard: time.Hour}, false},
		"lost many, and answers":           {health{outstanding: 1, retries: 9, lastHeard: time.Millisecond}, false},
		"does not read, and answers":       {health{probes: 0, lastHeard: 20 * time.Second}, false},
		"a probe is under way":             {health{probes: 2, lastHeard: 20 * time.Second}, false},
		"does not answer probes":           {health{probes: 3, lastHeard: long}, true},
		"does not answer probes for short": {health{probes: 3, lastHeard: short}, false},
		"retried what was acknowledged":    {health{retries: 3, lastHeard: long}, false},
	} {
		err := c.verdict()
		check.That(t, (err != nil) == c.dead, "%s: %v", name, err)
	}
}
