package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
)

// compatCommand is gorun compat, also gorun help compat, which shows the translation of other
// launchers' flags.
type compatCommand struct{ *invocation }

func newCompat(call *invocation) *cobra.Command {
	cmd := call.define(&cobra.Command{
		Use:   "compat [launcher]",
		Short: "Show what other launchers' flags mean to gorun",
		Args:  upToOneArgument,
	}, &compatCommand{call})
	for _, n := range dialect.Launchers() {
		cmd.ValidArgs = append(cmd.ValidArgs, n.Name)
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		_, _ = io.WriteString(cmd.OutOrStdout(), compatText(dialect.Own))
	})
	return cmd
}

func (c *compatCommand) Run(context.Context) (code int, err error) {
	only := dialect.Own
	if len(c.args) > 0 {
		var known bool
		if only, known = dialect.Named(c.args[0]); !known {
			return 0, dialect.Unknown("help compat "+c.args[0], c.args[0])
		}
	}
	_, err = io.WriteString(c.plain, compatText(only))
	return 0, err
}

// compatText formats the translation table of one launcher, or of all.
func compatText(only dialect.Dialect) string {
	var b strings.Builder
	b.WriteString(`Other launchers' flags, and what they mean to gorun. Where launchers differ, gorun follows the one
whose name it is started by (a link named mpirun, mpiexec, mpiexec.hydra, horovodrun, srun,
torchrun, deepspeed, accelerate or flux), or that --dialect NAME or GORUN_DIALECT names. The words of
the last three count only then.
A colon that stands alone separates programs: gorun -np 1 ./server : -np 4 ./worker
`)
	for _, n := range dialect.Launchers() {
		if only != dialect.Own && only != n.Dialect {
			continue
		}
		fmt.Fprintf(&b, "\n%s:\n", n.Title)
		for _, row := range dialect.Rows(n.Dialect) {
			b.WriteString(compatLine(row))
		}
		if n.Dialect == dialect.OpenMPI {
			b.WriteString("\nSettings of Open MPI (-mca NAME VALUE, OMPI_MCA_NAME, PRTE_MCA_NAME):\n")
			for _, row := range dialect.SettingRows() {
				b.WriteString(compatLine(row))
			}
			b.WriteString("  all others                              ignored, and named in one line\n")
		}
	}
	return b.String()
}

// compatLine formats a row in two columns; a long first column gets its own line.
func compatLine(row dialect.Row) string {
	means := row.Means
	if row.Variables != "" {
		means += " (also " + row.Variables + ")"
	}
	if len(row.Flags) > 38 {
		return fmt.Sprintf("  %s\n  %-38s  %s\n", row.Flags, "", means)
	}
	return fmt.Sprintf("  %-38s  %s\n", row.Flags, means)
}
