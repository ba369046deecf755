package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/sight/report"
	"github.com/gorun/gorun/internal/sight/watch/record"
	"github.com/gorun/gorun/internal/usage"
)

func newReport(io jobsIO) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "report [flags] DIR",
		Short: "Write a page about a run that --record has recorded",
		Long: `report reads a folder that gorun --record DIR has written, also while the job runs or after gorun was killed, and writes
one HTML page: the ranks over time, what they and their hosts used, ranks that stand out, and the cause of the end. The page
needs no network and no script.`,
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
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := record.Read(args[0])
			if errors.Is(err, fs.ErrNotExist) {
				return usage.Errorf("gorun --record DIR ... makes one", "%s holds no record of a run: %w", args[0], err)
			}
			if err != nil {
				return fmt.Errorf("read the record in %s: %w", args[0], err)
			}
			var page bytes.Buffer
			if err := report.Write(&page, all); err != nil {
				return err
			}
			if to == "-" {
				_, err := io.out.Write(page.Bytes())
				return err
			}
			if to == "" {
				to = filepath.Join(args[0], "report.html")
			}
			file, err := trust.Create(to)
			if err != nil {
				return usage.Errorf("name a file that you may write to: -o FILE", "write the report: %w", err)
			}
			_, err = file.Write(page.Bytes())
			if err = errors.Join(err, file.Close()); err != nil {
				return fmt.Errorf("write the report: %w", err)
			}
			io.console.Notef("the report is %s", to)
			return nil
		},
	}
	cmd.Flags().StringVarP(&to, "output", "o", "", "the page (default: report.html in DIR); - is standard output")
	return cmd
}
