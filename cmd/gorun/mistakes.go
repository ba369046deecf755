package main

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// hinted replaces the hint of an error, and its text if says is not empty.
type hinted struct {
	error
	says string
	hint string
}

func (e *hinted) Error() string { return cmp.Or(e.says, e.error.Error()) }
func (e *hinted) Hint() string  { return e.hint }
func (e *hinted) Unwrap() error { return e.error }

// checkListOfHosts returns an error for a list of hosts that a blank after a comma cuts in two, so
// that its second part stands in the place of a program.
func checkListOfHosts(hosts string, argv []string) error {
	if !strings.HasSuffix(strings.TrimSpace(hosts), ",") || len(argv) == 0 || strings.Contains(argv[0], "/") {
		return nil
	}
	if _, err := exec.LookPath(argv[0]); err == nil {
		return nil
	}
	return usage.Errorf("write the hosts without blanks: -H "+prose.Quoted(hosts+argv[0]),
		"-H %s ends with a comma, and there is no program %s", hosts, argv[0])
}

// missingProgram is the error for a command line without a program, which a last -x may have taken
// for the name of a variable.
func missingProgram(typed []string) error {
	const example = "for example: gorun -np 4 ./train; see gorun --help"
	if last := typed[max(0, len(typed)-2):]; len(last) == 2 && last[0] == "-x" {
		if _, err := exec.LookPath(last[1]); err == nil {
			return usage.Errorf(example, "no program given: -x took %s for its value", prose.Quoted(last[1]))
		}
	}
	return usage.Errorf(example, "no program given")
}

// explainProgram adds a hint to a failed launch whose program is missing or not executable, guessed
// from the program's name.
func explainProgram(err error, program []string, o *settings.Options, commands []string) error {
	var launch *launcher.LaunchError
	if !errors.As(err, &launch) || launch.Code() != 126 && launch.Code() != 127 {
		return err
	}
	h := programHint(program, launch.Code() == 127, o, commands)
	says := ""
	if command := commandHint(program, commands); command != "" && h == command {
		says = fmt.Sprintf("%q is neither a command of gorun nor a program in PATH", program[0])
	}
	if h == "" {
		return err
	}
	out := &launcher.LaunchError{}
	for _, f := range launch.Hosts {
		out.Hosts = append(out.Hosts, launcher.HostError{Host: f.Host, Err: &hinted{f.Err, says, h}})
	}
	return out
}

// programHint guesses what the user meant by a program that cannot be run, or returns "". missing
// distinguishes a missing program from one that is not executable.
func programHint(program []string, missing bool, o *settings.Options, commands []string) string {
	name := program[0]
	rest := program[1:]
	variable, _, assigned := strings.Cut(name, "=")
	plain := !strings.ContainsAny(name, "/.")
	command := commandHint(program, commands)
	switch _, number := strconv.Atoi(name); {
	case isStart(name) && command != "":
		return command
	case assigned && isVariable(variable) && len(o.Exports) > 0:
		last, _, valued := strings.Cut(o.Exports[len(o.Exports)-1], "=")
		if last = prose.Quoted(last); valued {
			last += "=..." // a file of settings may have set a secret
		}
		return fmt.Sprintf("repeat -x for each variable: -x %s -x %s", last, prose.Quoted(name))
	case assigned && isVariable(variable):
		return fmt.Sprintf("to send a variable, write -x %s before the program", prose.Quoted(name))
	case strings.ContainsFunc(name, unicode.IsSpace) && strings.ContainsAny(name, "$&|;<>*?`"):
		return fmt.Sprintf("it is one word, and needs a shell: write sh -c %s", prose.Quoted(name))
	case strings.ContainsFunc(name, unicode.IsSpace):
		return fmt.Sprintf("it is one word: write %s without quotes", name)
	case strings.HasSuffix(name, ".py") && !(missing && strings.Contains(name, "/")):
		return fmt.Sprintf("a Python script is run by python3: write python3 %s", prose.Quoted(program...))
	case strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"):
		return fmt.Sprintf("a job file is named by a flag: --config-file %s", prose.Quoted(name))
	case number == nil && len(rest) > 0 && len(o.Tools.Debug) > 0:
		return fmt.Sprintf("for some ranks, write --debug=%s", name)
	case number == nil && len(rest) > 0 && len(o.Tools.Panes) > 0:
		return fmt.Sprintf("for some ranks, write --panes=%s", name)
	case number == nil && len(rest) > 0 && len(o.Tools.Tool) > 0:
		return fmt.Sprintf("the ranks of a tool follow a colon: --tool %s:%s", prose.Quoted(o.Tools.Tool[0]), name)
	case number == nil && len(rest) > 0:
		return fmt.Sprintf("for the number of ranks, write -np %s before the program", name)
	case plain && len(rest) > 0 && mayBeHost(name, rest[0], o.Hosts):
		return fmt.Sprintf("if %s is a host, write hosts with commas: -H %s", name, prose.Quoted(o.Hosts+","+name))
	}
	if slices.Contains(commands, name) {
		return fmt.Sprintf("put gorun's command before its flags: gorun %s", prose.Quoted(program...))
	}
	return command
}

// commandHint guesses which command of gorun the user meant by the name of a program, or returns
// "".
func commandHint(program, commands []string) string {
	name := program[0]
	if strings.ContainsAny(name, "/.") {
		return ""
	}
	if isStart(name) && len(program) == 1 {
		return "name a program: gorun -np 4 ./train"
	}
	if isStart(name) {
		return fmt.Sprintf("gorun starts programs without a command: leave %q out", name)
	}
	if command := usage.Nearest(name, commands); command != "" && command != name {
		return "did you mean gorun " + command + "?"
	}
	return ""
}

// isStart reports whether a word is other programs' command that starts a program.
func isStart(word string) bool {
	return slices.Contains([]string{"run", "start", "launch", "submit"}, word)
}

// mayBeHost reports whether word, after the hosts of -H, may be another host: it differs from the
// last one only in its number, or a path (the program) follows.
func mayBeHost(word, next, hosts string) bool {
	last, _, _ := strings.Cut(hosts[strings.LastIndexByte(hosts, ',')+1:], ":")
	stem := func(name string) string { return strings.TrimRight(name, "0123456789") }
	isPath := strings.Contains(next, "/") && !strings.HasSuffix(next, ".py")
	return hosts != "" && (isPath || stem(word) == stem(last))
}

// isVariable reports whether text is a valid variable name.
func isVariable(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		return c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c)
	})
}

// strayFlags returns a hint if gorun's flags follow the program, else "".
func strayFlags(program []string) string {
	if len(program) < 3 || !slices.Contains([]string{"-np", "--np", "-hosts", "--hosts", "-hostfile", "--hostfile"},
		program[1]) {
		return ""
	}
	return fmt.Sprintf("%s was given to %s: gorun's flags go before the program", program[1], filepath.Base(program[0]))
}

// wrongFlag names the nearest flag of a command, or shows one that lacks its value.
func wrongFlag(cmd *cobra.Command, err error) error {
	if bare, is := errors.AsType[*pflag.ValueRequiredError](err); is {
		f := bare.GetFlag()
		value, _ := pflag.UnquoteUsage(f)
		return usage.Errorf(fmt.Sprintf("write --%s %s; %s --help says more", f.Name, strings.ToUpper(value),
			cmd.CommandPath()), "--%s needs a value", f.Name)
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	dashes := "--"
	name := unknown.GetSpecifiedName()
	word := name
	if letters := unknown.GetSpecifiedShortnames(); letters != "" { // all from the unknown one on
		dashes = "-"
		word, _, _ = strings.Cut(letters, "=")
	}
	var names []string
	near := ""
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		names = append(names, f.Name)
		if dashes == "-" && len(word) > 1 && strings.HasSuffix(f.Name, word) { // -follow, of which -f is known
			near = f.Name
		}
	})
	hint := cmd.CommandPath() + " --help lists its flags"
	if near = cmp.Or(near, usage.Nearest(word, names)); near != "" {
		hint = "did you mean --" + near + "?"
	}
	return usage.Errorf(hint, "unknown flag %s%s", dashes, name)
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage.Errorf("write "+cmd.CommandPath()+" alone", "%s: %q unexpected argument", cmd.CommandPath(),
			args[0])
	}
	return nil
}

// noProgram rejects arguments of a command that only takes the flags of a run.
func noProgram(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage.Errorf("name hosts with -H: "+cmd.CommandPath()+" -H "+prose.Quoted(strings.Join(args, ",")),
			"%s takes no program: %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// oneArgument requires one of choices.
func oneArgument(choices []string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage.Errorf("choose one: "+strings.Join(choices, ", "), "%s: missing argument", cmd.CommandPath())
		}
		return upToOneArgument(cmd, args)
	}
}

func upToOneArgument(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage.Errorf("write "+cmd.CommandPath()+" "+prose.Quoted(args[0]), "%s: %q unexpected argument",
			cmd.CommandPath(), args[1])
	}
	return nil
}

// refuseUnknownShells makes gorun completion reject unknown shells with the list of known ones.
func refuseUnknownShells(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		var shells []string
		for _, s := range c.Commands() {
			shells = append(shells, s.Name())
			s.Args = noArguments
			if s.Name() == "fish" {
				s.RunE = fishScript
			}
		}
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return usage.Errorf(usage.Choose(args[0], shells), "gorun completion: unknown shell %q",
				args[0])
		}
	}
}

// refuseUnknownTopics makes gorun help reject words that are no commands.
func refuseUnknownTopics(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() != "help" {
			continue
		}
		help := c.Run
		c.Run = nil
		c.RunE = func(cmd *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			if err == nil && (found != root || len(args) == 0) && (len(rest) == 0 || found.Name() == "compat") {
				help(cmd, args)
				return nil
			}
			hint := "gorun help lists the commands"
			if near := usage.Nearest(args[0], visible(root)); near != "" && near != args[0] {
				hint = "did you mean gorun help " + near + "?"
			}
			return usage.Errorf(hint, "gorun help: there is no command %q", strings.Join(args, " "))
		}
	}
}
