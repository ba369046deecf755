package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/manual"
	"github.com/gorun/gorun/internal/usage"
)

// manCommand is gorun man, which prints manual pages made from the flags. make man writes them to
// files.
type manCommand struct{ *invocation }

func newMan(call *invocation) *cobra.Command {
	return call.define(&cobra.Command{
		Use:                   "man [command]",
		Short:                 "Print the manual page, for man -l -",
		Example:               "  gorun man | man -l -\n  gorun man bench >gorun-bench.1",
		Args:                  upToOneArgument,
		DisableFlagsInUseLine: true,
	}, &manCommand{call})
}

func (c *manCommand) Run(context.Context) (code int, err error) {
	about := c.root
	if len(c.args) > 0 {
		if about, _, _ = c.root.Find(c.args); about == c.root || !about.IsAvailableCommand() {
			hint := "choose one: " + strings.Join(visible(c.root), ", ")
			if near := usage.Nearest(c.args[0], visible(c.root)); near != "" {
				hint = "did you mean gorun man " + near + "?"
			}
			return 0, usage.Errorf(hint, "gorun man: unknown command %q", c.args[0])
		}
	}
	_, err = io.WriteString(c.plain, manualPage(about).Roff())
	return 0, err
}

// manualPage returns the manual page of a command.
func manualPage(cmd *cobra.Command) manual.Page {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	version, _, _ := strings.Cut(ownVersion().String(), ",")
	page := manual.Page{
		Name:     strings.ReplaceAll(cmd.CommandPath(), " ", "-"),
		Short:    cmd.Short,
		Version:  version,
		Synopsis: []string{cmd.UseLine()},
		Sections: []manual.Section{{Title: "Description", Text: text}},
	}
	root := !cmd.HasParent()
	if root {
		page.Synopsis = append(page.Synopsis, "gorun COMMAND")
		commands := manual.Section{Title: "Commands"}
		for _, name := range visible(cmd) {
			c, _, _ := cmd.Find([]string{name})
			commands.Terms = append(commands.Terms, manual.Term{Word: c.UseLine(), Text: c.Short + "."})
		}
		page.Sections = append(page.Sections, commands)
	}
	for _, section := range flagSections(cmd) {
		options := manual.Section{Title: section.title}
		section.flags.VisitAll(func(f *pflag.Flag) { options.Terms = append(options.Terms, flagTerm(f)) })
		page.Sections = append(page.Sections, options)
	}
	if root {
		page.Sections = append(page.Sections, referenceSections()...)
	}
	if cmd.Example != "" {
		page.Sections = append(page.Sections, manual.Section{Title: "Examples", Plain: cmd.Example})
	}
	return page
}

// flagTerm returns a flag with its value and help.
func flagTerm(f *pflag.Flag) manual.Term {
	value, text := pflag.UnquoteUsage(f)
	word := "--" + f.Name
	if f.Shorthand != "" {
		word = "-" + f.Shorthand + ", " + word
	}
	if value != "" && f.NoOptDefVal == "" {
		word += " " + value
	}
	if unset := map[string]bool{"": true, "0": true, "0s": true, "false": true, "[]": true}; !unset[f.DefValue] {
		text += " (default " + f.DefValue + ")"
	}
	return manual.Term{Word: word, Text: text}
}

// referenceSections returns the sections on exit status, environment and files.
func referenceSections() []manual.Section {
	return []manual.Section{
		{Title: "Exit status", Text: "The first failure sets the code:", Terms: []manual.Term{
			{Word: "0", Text: "every rank ended with 0"},
			{Word: "2",
				Text: "mistake on the command line, in a hostfile or in the configuration; nothing was started"},
			{Word: "122", Text: "no rank made progress for --hang-timeout, and --on-hang kill stopped the job"},
			{Word: "124", Text: "the job ran longer than --timeout"},
			{Word: "125", Text: "the job could not be launched on some host, or a host was lost"},
			{Word: "126", Text: "the program is not executable"},
			{Word: "127", Text: "the program was not found"},
			{Word: "128 + n", Text: "signal n ended the first rank that failed"},
			{Word: "129, 130, 143", Text: "gorun was stopped by SIGHUP, SIGINT (Ctrl-C), SIGTERM"},
			{Word: "141", Text: "the reader of gorun's output closed it"},
			{Word: "others", Text: "the code of the first rank that failed"},
		}},
		{Title: "Environment", Terms: []manual.Term{
			{Word: "GORUN_NAME", Text: "the value of the flag --name if the command line does not give it: GORUN_NP, " +
				"GORUN_SSH_CONFIG"},
			{Word: "GORUN_DIALECT", Text: "the launcher whose flags are accepted first"},
			{Word: "SLURM_JOB_NODELIST, PBS_NODEFILE, LSB_DJOB_HOSTFILE, PE_HOSTFILE",
				Text: "the hosts of a scheduler's job, if -H and --hostfile name none"},
			{Word: "NO_COLOR", Text: "no colors in prefixes of output lines"},
		}},
		{Title: "Files", Terms: []manual.Term{
			{Word: "~/.config/gorun/config.yaml", Text: "values of flags, below the command line and GORUN_ variables"},
			{Word: "~/.ssh/config, ~/.ssh/known_hosts", Text: "addresses, logins and keys of hosts"},
			{Word: "~/.cache/gorun", Text: "on hosts: gorun, if its own path does not exist there"},
		}},
		{Title: "See also", Text: "ssh(1), ssh_config(5), srun(1). Every command prints its own page: gorun man " +
			"COMMAND."},
	}
}
