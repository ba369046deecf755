package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/internal/sight/report"
	"github.com/gorun/gorun/internal/sight/watch/record"
	"github.com/gorun/gorun/internal/usage"
)

// reportCommand is gorun report.
type reportCommand struct {
	*invocation
	to string // "": in the record; -: standard output
}

func newReport(call *invocation) *cobra.Command {
	c := &reportCommand{invocation: call}
	cmd := call.define(&cobra.Command{
		Use:   "report [flags] DIR",
		Short: "Write a page about a run that --record has recorded",
		Long: `report reads a folder that gorun --record DIR has written, also while the job runs or after gorun
was killed, and writes one HTML page: the ranks over time, what they and their hosts used, ranks
that stand out, and the cause of the end. The page needs no network and no script.`,
		Example: `  gorun --record run1 -np 8 ./train
  gorun report run1
  gorun report -o train.html run1`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage.Errorf("for example gorun --record run1 -np 8 ./train, then gorun report run1",
					"gorun report takes the folder of a record")
			}
			return nil
		},
	}, c)
	cmd.Flags().StringVarP(&c.to, "output", "o", "", "the page (default: report.html in DIR); - is standard output")
	return cmd
}

func (c *reportCommand) Run(context.Context) (code int, err error) {
	all, err := record.Read(c.args[0])
	if errors.Is(err, fs.ErrNotExist) {
		return 0, usage.Errorf("gorun --record DIR ... makes one", "%s holds no record of a run: %w", c.args[0], err)
	}
	if err != nil {
		return 0, fmt.Errorf("read the record in %s: %w", c.args[0], err)
	}
	if c.to == "-" {
		return 0, report.Write(c.stdout, all)
	}
	to := cmp.Or(c.to, filepath.Join(c.args[0], "report.html"))
	err = writeFile(to, "name a file that you may write to: -o FILE", func(w io.Writer) error {
		return report.Write(w, all)
	})
	if err != nil {
		return 0, err
	}
	c.console.Notef("the report is %s", to)
	return 0, nil
}
