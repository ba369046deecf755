package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
)

// helpWidth is the greatest width of the help in columns.
const helpWidth = 100

// writeUsage writes the usage of a command: its own flags, then the flags of a run that apply to
// it.
func writeUsage(cmd *cobra.Command) error {
	root := !cmd.HasParent()
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				fmt.Fprintf(&b, "  %-11s %s\n", c.Name(), c.Short)
			}
		}
	}
	for _, section := range flagSections(cmd) {
		fmt.Fprintf(&b, "\n%s:\n%s", section.title, section.flags.FlagUsagesWrapped(helpWidth))
	}
	if root {
		b.WriteString(`
Flags of mpirun, mpiexec.hydra, horovodrun, srun, torchrun, deepspeed, accelerate
and flux are understood too: gorun help compat lists them.

Exit codes: the first failing rank's own, 128+signal, or 2 usage, 124 timeout,
125 cannot launch or host lost, 126/127 program not executable/not found, 130 Ctrl-C.
`)
	}
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// flagSection is a heading of the help and its flags.
type flagSection struct {
	title string
	flags *pflag.FlagSet
}

// flagSections returns the flags that apply to a command: first its own, then those of a run in
// their groups.
func flagSections(cmd *cobra.Command) (sections []flagSection) {
	grouped := map[string]bool{}
	var o settings.Options
	for _, group := range o.Groups() {
		s := newSection(group.Title)
		for _, row := range group.Flags {
			if f := cmd.Flags().Lookup(row.Name); f != nil && f.Usage == row.Usage {
				grouped[f.Name] = true
				s.add(f)
			}
		}
		if s.flags.HasFlags() {
			sections = append(sections, s)
		}
	}
	own := newSection("Flags")
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch {
		case grouped[f.Name]:
		case f.Name == "help" && len(sections) > 0:
			sections[len(sections)-1].add(f)
		default:
			own.add(f)
		}
	})
	if own.flags.HasFlags() {
		sections = append([]flagSection{own}, sections...)
	}
	return sections
}

func newSection(title string) flagSection {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	return flagSection{title, flags}
}

// add adds a flag to the help. It leaves out an empty default, and one that the text mentions.
func (s flagSection) add(f *pflag.Flag) {
	if f.Hidden {
		return
	}
	shown := *f
	if _, isString := f.Value.(interface{ GetSlice() []string }); !isString && (f.DefValue == "0s" ||
		strings.Contains(f.Usage, "default")) && f.Value.Type() != "int" {
		shown.DefValue = ""
	}
	s.flags.AddFlag(&shown)
}
