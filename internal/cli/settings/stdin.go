package settings

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/launcher"
)

// stdinChoice selects the ranks that read standard input: a rank, all or none. The zero value is rank 0.
type stdinChoice string

func (c *stdinChoice) Type() string { return "rank" }

func (c *stdinChoice) String() string {
	if *c == "" {
		return "0"
	}
	return string(*c)
}

func (c *stdinChoice) Set(text string) error {
	if _, err := strconv.ParseUint(text, 10, 20); err != nil && text != "all" && text != "none" {
		return errors.New("expected a rank, all or none")
	}
	*c = stdinChoice(text)
	return nil
}

// Rank returns the launcher.Options.StdinRank for a job of size ranks.
func (c *stdinChoice) Rank(size int) (int, error) {
	switch c.String() {
	case "all":
		return launcher.StdinAll, nil
	case "none":
		return 0, nil // without input the rank does not matter
	}
	rank, err := strconv.Atoi(c.String())
	if err != nil {
		return 0, fmt.Errorf("--stdin %s: %w", c, err)
	}
	if rank >= size {
		return 0, usage.Errorf(fmt.Sprintf("this job's ranks go from 0 to %d", size-1), "--stdin %d: there is no rank %d", rank, rank)
	}
	return rank, nil
}
