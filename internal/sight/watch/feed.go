package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
)

// Bounds of what a host tells.
const (
	maxGPUs = 64
	maxText = 64 // bytes of a rank's state and of what it waits in
)

// reading is an agent's report at one time.
type reading struct {
	at    time.Duration // time on the host's clock
	came  time.Time
	ranks map[int]wire.RankUse
	host  wire.HostUse
}

// feed is the stream of readings of one agent. The follower's lock guards all but agent and gpus.
type feed struct {
	agent      Agent
	gpus       map[int][]string // assigned GPUs by rank
	every      time.Duration
	cancel     context.CancelFunc
	prev, last *reading
	over       bool // whether the agent's readings have ended
}

func newFeed(agent Agent) *feed {
	f := &feed{agent: agent, gpus: map[int][]string{}}
	for _, place := range agent.Placements() {
		f.gpus[place.Rank] = place.GPUs
	}
	return f
}

// run receives readings until the agent ends them or ctx ends. It calls arrived for each.
func (f *feed) run(ctx context.Context, every time.Duration, arrived func(*reading)) error {
	p := parser{began: f.agent.Began}
	return f.agent.Readings(ctx, every, func(data []byte) error { return p.add(data, arrived) })
}

// parser reads lines of readings, which come from a host.
type parser struct {
	began func(rank int) bool
	text  []byte // bytes of an incomplete line
	now   *reading
}

var errReading = errors.New("malformed reading")

// add takes bytes and calls arrived for each complete reading.
func (p *parser) add(data []byte, arrived func(*reading)) error {
	p.text = append(p.text, data...)
	for {
		line, rest, complete := bytes.Cut(p.text, []byte("\n"))
		if len(line) > wire.MaxReading {
			return fmt.Errorf("%w: a line of %d bytes", errReading, len(line))
		}
		if !complete {
			return nil
		}
		var r wire.Reading
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("%w: %.100s", errReading, err.Error())
		}
		p.text = rest
		if p.now == nil {
			p.now = &reading{ranks: map[int]wire.RankUse{}}
		}
		if u := r.Rank; u != nil {
			if !p.began(u.Rank) {
				return fmt.Errorf("%w: of rank %d, which is not there", errReading, u.Rank)
			}
			for _, text := range []*string{&u.State, &u.Waits} {
				*text = prose.Printable(*text)
				*text = strings.ToValidUTF8(strings.Clone((*text)[:min(len(*text), maxText)]), "?")
			}
			p.now.ranks[u.Rank] = *u
		}
		if r.Host != nil {
			p.now.at = r.At
			p.now.came = time.Now()
			p.now.host = *r.Host
			h := &p.now.host
			h.GPUs = gpusOf(h.GPUs)
			h.GPUProblem = prose.Printable(h.GPUProblem)
			for i := range h.GPUs {
				h.GPUs[i].UUID = prose.Printable(h.GPUs[i].UUID)
				h.GPUs[i].Name = prose.Printable(h.GPUs[i].Name)
			}
			arrived(p.now)
			p.now = nil
		}
	}
}

// gpusOf returns one GPU of each index, and not more than a host may have: a document of metrics
// with two series of one name is refused as a whole.
func gpusOf(said []wire.GPUUse) (all []wire.GPUUse) {
	seen := map[int]bool{}
	for _, g := range said {
		if !seen[g.Index] && len(all) < maxGPUs {
			seen[g.Index] = true
			all = append(all, g)
		}
	}
	return all
}
