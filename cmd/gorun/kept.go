package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/cmd/gorun/internal/kept"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/usage"
)

// upCommand is gorun up, which keeps connections to the hosts that a run with the same flags would
// use.
type upCommand struct {
	jobCommand
	lasts, idle settings.Seconds
	preload     []string
}

func newUp(call *invocation) *cobra.Command {
	c := &upCommand{jobCommand: jobCommand{invocation: call}, lasts: settings.Seconds(8 * time.Hour)}
	cmd := &cobra.Command{
		Use:   "up [flags]",
		Short: "Keep hosts connected, so that jobs start sooner",
		Long: `up connects to the hosts that a run with the same flags would use, and keeps the connections in the
background. Later jobs of yours on this machine use them without being told, if they reach the
host by the same name, login, port, keys and SSH configuration. Each job gets agents of its own.
gorun down ends it, gorun ps lists it.`,
		Example: `  gorun up -H f1:2,f2:2
  gorun up --hostfile hosts.txt --for 2h
  gorun up -H f1:2,f2:2 --preload torch
  gorun down`,
		Args: noProgram,
	}
	cmd.Flags().Var(&c.lasts, "for", "how long to keep the hosts; jobs that run at the end go on")
	cmd.Flags().Var(&c.idle, "idle", "end when no job has used the hosts for this time (default: never before --for)")
	cmd.Flags().StringSliceVar(&c.preload, "preload", nil,
		"Python modules, separated by commas, to import before ranks are forked: they start sooner")
	return c.takeJobFlags(cmd, c, settings.Connects)
}

func (c *upCommand) Run(ctx context.Context) (code int, err error) {
	if _, err := c.complete(); err != nil {
		return 0, err
	}
	for _, name := range c.preload {
		if name == "" || strings.ContainsFunc(name, unicode.IsSpace) {
			return 0, usage.Errorf("for example --preload torch,numpy", "--preload %q: it is not the name of a module",
				name)
		}
	}
	if c.waiting == nil {
		return startKeeper(c.argv, c.plain, c.console)
	}
	keeper := kept.Keeper{
		Again:   true,
		Limits:  kept.Limits{For: time.Duration(c.lasts), Idle: time.Duration(cmp.Or(c.idle, c.o.Control.Keep))},
		Preload: c.preload,
		Words:   shownWords(c.argv),
		Waiting: c.waiting,
	}
	return keeper.Serve(ctx, &c.o, c.console)
}

// downCommand is gorun down.
type downCommand struct {
	*invocation
	now bool
}

func newDown(call *invocation) *cobra.Command {
	c := &downCommand{invocation: call}
	cmd := call.define(&cobra.Command{
		Use:   "down [flags] [ID ...]",
		Short: "End what gorun up keeps",
		Long: `down ends the goruns in the background that keep hosts, or those with the given ids. Jobs that use
their hosts go on, and the connections end with the last of them.`,
		Example: `  gorun down
  gorun down --now up-g7k2`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return kept.Names(control.FindPlace(os.Getenv)), cobra.ShellCompDirectiveNoFileComp
		},
	}, c)
	cmd.Flags().BoolVar(&c.now, "now", false, "close the connections at once, which ends the jobs that use them")
	return cmd
}

func (c *downCommand) Run(ctx context.Context) (code int, err error) {
	return 0, kept.Down(ctx, c.place(), c.args, c.now, c.console)
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

// shownWords returns a command line in the form that gorun ps shows.
func shownWords(argv []string) []string { return slices.Concat([]string{"gorun"}, argv[1:]) }
