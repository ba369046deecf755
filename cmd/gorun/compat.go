package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
)

// compatCommand is gorun compat, also gorun help compat, which shows the translation of other
// launchers' flags.
type compatCommand struct{ *invocation }

func newCompat(call *invocation) *cobra.Command {
	cmd := call.define(&cobra.Command{
		Use:   "compat [launcher]",
		Short: "Show what mpirun's, mpiexec's, horovodrun's, srun's and torchrun's flags mean to gorun",
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
whose name it is started by (a link named mpirun, mpiexec, mpiexec.hydra, horovodrun, srun or
torchrun), or that --dialect NAME or GORUN_DIALECT names.
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
func compatLine(row [2]string) string {
	if len(row[0]) > 38 {
		return fmt.Sprintf("  %s\n  %-38s  %s\n", row[0], "", row[1])
	}
	return fmt.Sprintf("  %-38s  %s\n", row[0], row[1])
}

// flagGroup is a titled group of flags in the help.
type flagGroup struct {
	title string
	names []string
}

func flagGroups() []flagGroup {
	return []flagGroup{
		{"Where and how many", []string{"np", "ppn", "nodes", "hosts", "hostfile", "no-local", "no-oversubscribe",
			"map-by", "rank-by", "rankfile", "check-first", "exclude-bad"}},
		{"Hosts that come and go", []string{"min-np", "max-np", "host-discovery-script", "slots-per-host",
			"reset-limit", "max-restarts", "elastic-timeout", "blacklist-cooldown-range"}},
		{"Where on a host", []string{"bind-to", "cpus-per-rank", "cpu-list", "rank-cpus", "gpus-per-rank",
			"report-bindings"}},
		{"What the ranks get", []string{"export", "env-file", "unset-env", "no-env", "wdir", "stage", "stage-limit",
			"stage-env", "stage-env-dir", "stdin", "mpi", "max-spawn", "no-new-privileges"}},
		{"Output", []string{"prefix", "tag-output", "timestamp", "color", "show", "show-local", "hide", "merge-stderr",
			"output-filename", "stdout-file", "stderr-file", "result-dir", "result-limit", "summary", "quiet",
			"json-events"}},
		{"How long", []string{"start-timeout", "timeout", "hang-timeout", "on-hang", "grace"}},
		{"Connections", []string{"launcher", "launch-agent", "launch-agent-args", "ssh-config", "ssh-port",
			"ssh-identity-file", "host-keys", "keep", "no-kept", "network-interface", "encrypt"}},
		{"Debuggers, profilers and terminals", []string{"tool", "debug", "panes"}},
		{"Jobs beside this terminal", []string{"name", "detach", "no-control", "metrics", "record"}},
		{"gorun itself", []string{"dry-run", "json", "display-map", "print-env-flags", "config-file", "config",
			"dialect", "verbose", "help"}},
	}
}

// groupUsage makes root show its flags in groups, each of which must have one.
func groupUsage(root *cobra.Command) {
	plain := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		if cmd != root {
			return plain(cmd)
		}
		var b strings.Builder
		fmt.Fprintf(&b, "Usage:\n  %s\n  gorun COMMAND\n\nExamples:\n%s\n\nCommands:\n", cmd.UseLine(), cmd.Example)
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				fmt.Fprintf(&b, "  %-11s %s\n", c.Name(), c.Short)
			}
		}
		for _, group := range flagGroups() {
			set := pflag.NewFlagSet("", pflag.ContinueOnError)
			set.SortFlags = false
			for _, name := range group.names {
				set.AddFlag(cmd.Flags().Lookup(name))
			}
			fmt.Fprintf(&b, "\n%s:\n%s", group.title, set.FlagUsages())
		}
		b.WriteString(`
Flags of mpirun, mpiexec.hydra, horovodrun, srun and torchrun are understood too:
gorun help compat lists them.

Exit codes: the first failing rank's own, 128+signal, or 2 usage, 124 timeout,
125 cannot launch or host lost, 126/127 program not executable/not found, 130 Ctrl-C.
`)
		_, err := io.WriteString(cmd.OutOrStderr(), b.String())
		return err
	})
}
