package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/kept"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/sight/control"
)

// upFunc keeps the hosts of a run connected.
type upFunc func(flags *pflag.FlagSet, o *settings.Options, limits kept.Limits) error

// newUp returns the command gorun up, which keeps connections to the hosts that a run with the same
// flags would use.
func newUp(up upFunc) *cobra.Command {
	lasts := settings.Seconds(8 * time.Hour)
	idle := settings.Seconds(0)
	cmd := &cobra.Command{
		Use:   "up [flags]",
		Short: "Keep hosts connected, so that jobs start sooner",
		Long: `up connects to the hosts that a run with the same flags would use, and keeps the connections in the
background. Later jobs of yours on this machine use them without being told, if they reach the
host by the same name, login, port, keys and SSH configuration. Each job gets agents of its own. gorun down
ends it, gorun ps lists it.`,
		Example: `  gorun up -H f1:2,f2:2
  gorun up --hostfile hosts.txt --for 2h
  gorun down`,
	}
	newListing(cmd, func(flags *pflag.FlagSet, o *settings.Options, _ listOptions) error {
		return up(flags, o, kept.Limits{For: time.Duration(lasts), Idle: time.Duration(idle)})
	}, &listOptions{})
	_ = cmd.Flags().MarkHidden("json")
	cmd.Flags().Var(&lasts, "for", "how long the hosts are kept; jobs that run then go on")
	cmd.Flags().Var(&idle, "idle", "end when no job has used the hosts for this time (default: never before --for)")
	return cmd
}

// newDown returns the command gorun down.
func newDown(io jobsIO) *cobra.Command {
	now := false
	cmd := &cobra.Command{
		Use:   "down [flags] [ID ...]",
		Short: "End what gorun up keeps",
		Long: `down ends the goruns in the background that keep hosts, or those with the given ids. Jobs that use their hosts go
on, and the connections end with the last of them.`,
		Example: `  gorun down
  gorun down --now up-g7k2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return kept.Down(cmd.Context(), control.FindPlace(os.Getenv), args, now, io.console)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return kept.Names(control.FindPlace(os.Getenv)), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.SetFlagErrorFunc(unknownFlag)
	cmd.Flags().BoolVar(&now, "now", false, "close the connections at once, which ends the jobs that use them")
	return cmd
}

// startKeeper starts gorun up in the background, and prints its id when the hosts are connected.
func startKeeper(argv []string, out io.Writer, console *ui.UI) (code int, err error) {
	id, code, err := kept.Start(argv)
	if err != nil || id == "" {
		return code, err
	}
	console.Notef("the hosts are kept connected: gorun uses them by itself, and gorun down %s ends it", id)
	_, err = fmt.Fprintln(out, id)
	return 0, err
}

// shownWords returns the words of a command line as gorun ps shows them.
func shownWords(argv []string) []string {
	words := slices.Concat([]string{"gorun"}, argv[1:])
	return slices.DeleteFunc(words, func(word string) bool { return word == kept.Command })
}
