package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newCompat is `gorun help compat`: what becomes of other launchers' words.
func newCompat() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compat [launcher]",
		Short: "Show what mpirun's, mpiexec's, horovodrun's, srun's and torchrun's flags mean to gorun",
		Args:  upToOneWord,
	}
	show := func(cmd *cobra.Command, args []string) error {
		only := Own
		if len(args) > 0 {
			var known bool
			if only, known = dialectNamed(args[0]); !known {
				return unknownDialect("help compat "+args[0], args[0])
			}
		}
		_, err := io.WriteString(cmd.OutOrStdout(), compatText(only))
		return err
	}
	for _, n := range launcherNames() {
		cmd.ValidArgs = append(cmd.ValidArgs, n.name)
	}
	cmd.RunE = show
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { _ = show(cmd, nil) })
	return cmd
}

// compatText is the migration table for a terminal: of one launcher, or of all.
func compatText(only launchers) string {
	var b strings.Builder
	b.WriteString("Other launchers' flags, and what they mean to gorun. Where launchers differ, gorun started as\nmpirun, mpiexec, mpiexec.hydra, horovodrun, srun or torchrun (a link to it) means what that one\nmeans; so do --dialect NAME and GORUN_DIALECT.\nA colon that stands alone parts programs: gorun -np 1 ./server : -np 4 ./worker\n")
	for _, n := range launcherNames() {
		if only != Own && only != n.launcher {
			continue
		}
		fmt.Fprintf(&b, "\n%s:\n", n.title)
		for _, row := range compatRows(words(), n.launcher) {
			b.WriteString(compatLine(row))
		}
		if n.launcher == OpenMPI {
			b.WriteString("\nSettings of Open MPI (-mca NAME VALUE, OMPI_MCA_NAME, PRTE_MCA_NAME):\n")
			for _, row := range compatRows(mcaWords(), OpenMPI) {
				b.WriteString(compatLine(row))
			}
			b.WriteString("  all others                              ignored, and named in one line\n")
		}
	}
	return b.String()
}

// compatLine is a row in columns; a long first column has a line of its own.
func compatLine(row [2]string) string {
	if len(row[0]) > 38 {
		return fmt.Sprintf("  %s\n  %-38s  %s\n", row[0], "", row[1])
	}
	return fmt.Sprintf("  %-38s  %s\n", row[0], row[1])
}

// compatRows are the rows of a launcher: what is typed, and what it means.
func compatRows(table []word, launcher launchers) (rows [][2]string) {
	for _, w := range table {
		if w.of&launcher == 0 {
			continue
		}
		var names []string
		for name := range strings.FieldsSeq(w.names) {
			names = append(names, dashed(name, launcher, &w))
		}
		rows = append(rows, [2]string{strings.Join(names, ", ") + w.values(), w.says()})
	}
	return rows
}

// dashed is a word as it is written: Hydra's have one dash, a setting has none.
func dashed(name string, launcher launchers, w *word) string {
	switch {
	case strings.Contains(name, "_"):
		return name
	case len(name) == 1 || launcher == Hydra:
		return "-" + name
	}
	return "--" + name
}

// values is how a word's values are written after it.
func (w *word) values() string {
	is := strings.ReplaceAll(w.is, " ", "|")
	switch {
	case is != "" && w.args == attached:
		return "=" + is
	case is != "":
		return " " + is
	case w.args == pair:
		return " NAME=VALUE"
	case w.args == attached:
		return "[=VALUE]"
	}
	return strings.Repeat(" VALUE", w.args)
}

// says is what gorun makes of a word.
func (w *word) says() string {
	switch w.does {
	case means:
		flag, value, valued := strings.Cut(w.to, "=")
		if value = strings.ReplaceAll(value, "{}", "VALUE"); valued && strings.Contains(value, " ") {
			value = "'" + value + "'"
		}
		return strings.TrimSpace("--" + flag + " " + value)
	case same:
		return "nothing to do: " + w.to
	case pending:
		return "no effect yet: " + w.to
	case refuse:
		return "refused: " + w.to
	}
	return readerSays(w.to)
}

// readerSays is what a reader makes of its words.
func readerSays(reader string) string {
	switch reader {
	case "mca":
		return "see the settings of Open MPI"
	case "mpi-args":
		return "the options of mpirun in it are read as such"
	case "ssh-args":
		return "-p, -i, -F and some -o are --ssh-port, --ssh-identity-file, --ssh-config, --host-keys; all are --launch-agent-args"
	case "rsh-agent":
		return "--launch-agent; of several with : between, the first that is there"
	case "map-by":
		return "slot, core and node are --map-by slot and node, ppr:N:node is --ppn N, :pe=N is --cpus-per-rank N, :nooversubscribe is --no-oversubscribe; others are refused"
	case "bind-to":
		return "--bind-to VALUE; machine is none, rr is hwthread, core:N is core and --cpus-per-rank N"
	case "cpus-per-task":
		return "--cpus-per-rank VALUE, and --bind-to none unless --cpu-bind says otherwise"
	case "cpu-bind":
		return "none, threads, cores, sockets and ldoms are --bind-to; verbose is --report-bindings; others have no effect yet"
	case "envlist":
		return "--no-env and --export of each name"
	case "envexcl":
		return "--unset-env of each name"
	case "mca-env-list":
		return "--export of each, parted by ;"
	case "srun-export":
		return "ALL sends the environment, NONE does not, NAME and NAME=VALUE are --export"
	case "srun-time":
		return "--timeout, from minutes, minutes:seconds, hours:minutes:seconds or days-hours"
	case "fusion":
		return "--export HOROVOD_FUSION_THRESHOLD=VALUE × 1048576"
	case "pattern":
		return "--prefix, with %r and %h"
	case "prefix":
		return "a path: no effect, gorun needs nothing installed on hosts; else --prefix"
	case "nodelist":
		return "--hosts VALUE; --hostfile VALUE where it has a /"
	case "output":
		return "tag, timestamp, merge and dir=DIR are --prefix mpirun, --timestamp, --merge-stderr, --output-filename DIR; dir=DIR:nocopy is --hide all, too"
	case "display":
		return "map and allocation are --display-map, bindings is --report-bindings"
	case "default-hostfile":
		return "--hostfile, where no hosts are named"
	case "default-slots":
		return "slots of hosts in the default hostfile that name none, from the environment"
	case "app", "configfile":
		return "a program a line, with its flags before it, as between colons; \\ goes on with the next line, # is a comment"
	case "multi-prog":
		return "the program is a file: 0,2-3 ./prog %t %o a line; %t is the rank, %o its place in the line, * all other ranks"
	case "module":
		return "the program is run by python -m"
	case "no-python":
		return "the program is run as it is, not by python"
	}
	return streamsSay(reader)
}

// flagGroup is flags that are shown together.
type flagGroup struct {
	title string
	names []string
}

func flagGroups() []flagGroup {
	return []flagGroup{
		{"Where and how many", []string{"np", "ppn", "nodes", "hosts", "hostfile", "no-oversubscribe", "map-by", "rank-by", "host-discovery-script", "slots-per-host", "min-np", "max-np"}},
		{"Where on a host", []string{"bind-to", "cpus-per-rank", "report-bindings"}},
		{"What the ranks get", []string{"export", "env-file", "unset-env", "no-env", "wdir", "stage", "stage-limit", "stdin"}},
		{"Output", []string{"prefix", "tag-output", "timestamp", "color", "show", "hide", "merge-stderr", "output-filename", "stdout-file", "stderr-file", "summary", "quiet", "json-events"}},
		{"How long", []string{"start-timeout", "timeout", "grace"}},
		{"Connections", []string{"launcher", "launch-agent", "launch-agent-args", "ssh-config", "ssh-port", "ssh-identity-file", "host-keys", "network-interface"}},
		{"gorun itself", []string{"dry-run", "json", "display-map", "print-env-flags", "config-file", "config", "dialect", "verbose", "help"}},
	}
}

// groupUsage makes root show its flags in groups. Flags that are in none come last.
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
		shown := map[string]bool{}
		groups := flagGroups()
		for i := range len(groups) + 1 {
			title, set := "More", pflag.NewFlagSet("", pflag.ContinueOnError)
			set.SortFlags = false
			if i < len(groups) {
				title = groups[i].title
				for _, name := range groups[i].names {
					if f := cmd.Flags().Lookup(name); f != nil {
						set.AddFlag(f)
						shown[f.Name] = true
					}
				}
			} else {
				cmd.Flags().VisitAll(func(f *pflag.Flag) {
					if !shown[f.Name] {
						set.AddFlag(f)
					}
				})
			}
			if set.HasFlags() {
				fmt.Fprintf(&b, "\n%s:\n%s", title, set.FlagUsages())
			}
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
