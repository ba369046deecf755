package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/gorun/gorun/ring"
)

// Rank is one rank of a benchmark, whose only argument are its [Options], as JSON. Rank 0 writes
// each [Row] to out, a JSON object a line.
func Rank(ctx context.Context, args []string, out io.Writer) error {
	var opts Options
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &opts) != nil {
		return errors.New("this command is internal to gorun")
	}
	c, err := ring.Init(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	lines := json.NewEncoder(out)
	var lost error
	err = Run(ctx, c, opts, func(row Row) {
		if c.Rank() == 0 {
			lost = errors.Join(lost, lines.Encode(row))
		}
	})
	return errors.Join(err, lost)
}
