package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/ssh"
)

// completing reports whether args are a shell's request for completions.
func completing(args []string) bool {
	return len(args) > 1 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// forCompletion translates a completion request to gorun's own flags, since cobra knows neither -np
// nor the program that ends the flags. The last of args is the word being typed.
func forCompletion(args []string, root *cobra.Command) []string {
	root.SetOut(candidates{root.OutOrStdout()})
	completeFlags(root)
	for _, cmd := range root.Commands() {
		completeFlags(cmd)
	}
	request := args[:1]
	words := args[1 : len(args)-1]
	last := args[len(args)-1]
	read := func(words []string, flags *pflag.FlagSet) (dialect.Line, error) {
		return dialect.Translate(words, nil, dialect.Own, flags, nil)
	}
	flags := root.Flags()
	command := commandOf(words, visible(root), root)
	switch {
	case command != nil:
		request = args[:2]
		words = words[1:]
		flags = command.Flags()
		read = func(words []string, flags *pflag.FlagSet) (dialect.Line, error) {
			return dialect.TranslateWords(words, nil, flags)
		}
	case len(words) > 0 && slices.Contains(visible(root), words[0]):
		return args
	}
	t, err := read(words, flags)
	if err == nil {
		return slices.Concat(request, t.Args, []string{last})
	}
	if n := len(words) - 1; n >= 0 { // the last word may be a flag without its value
		if t, err = read(words[:n], flags); err == nil {
			if f := dialect.Lookup(flags, strings.TrimLeft(words[n], "-")); f != nil {
				return slices.Concat(request, t.Args, []string{"--" + f.Name, last})
			}
		}
	}
	return slices.Concat(args[:1], []string{"--", "program", ""}) // fall back to files
}

// candidates passes on the candidates, of which cobra writes one at a time, that are plain words.
type candidates struct{ to io.Writer }

func (c candidates) Write(line []byte) (int, error) {
	word, _, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), "\t")
	if !isPlainWord(word) {
		return len(line), nil
	}
	return c.to.Write(line)
}

// isPlainWord reports whether a shell takes a word as it is. bash inserts unquoted what several
// candidates begin with, and cobra's scripts run the line when they complete its next word. Other
// users may have given a file any name.
func isPlainWord(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.M, unicode.N) && !strings.ContainsRune("-_./:,@%+=^", r)
	})
}

// fishScript writes cobra's script for fish, which runs the words of a line to complete its next
// one, as fish gives them: without their quotes. Here they are quoted again, but for ~.
func fishScript(cmd *cobra.Command, _ []string) error {
	bare, err := cmd.Flags().GetBool("no-descriptions")
	if err != nil {
		return err
	}
	var script bytes.Buffer
	if err := cmd.Root().GenFishCompletion(&script, !bare); err != nil {
		return err
	}
	const words = "(commandline -opc)"
	const quoted = `(string escape -n -- ` + words + ` | string replace -r '^\\\\~' '~')`
	if bytes.Count(script.Bytes(), []byte(words)) != 1 {
		return fmt.Errorf("cobra's script for fish has not one %s", words)
	}
	_, err = cmd.OutOrStdout().Write(bytes.ReplaceAll(script.Bytes(), []byte(words), []byte(quoted)))
	return err
}

// completeFlags registers the values that flags accept.
func completeFlags(cmd *cobra.Command) {
	ofCommands := map[string][]string{
		"transport":  {"auto", "shm", "tcp"},
		"device":     {"cpu", "cuda"},
		"stepfactor": {"2", "4"},
		"signal":     {"TERM", "KILL", "INT", "HUP", "QUIT", "USR1", "USR2", "STOP", "CONT"},
	}
	ofRun := settings.FlagsByName()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flag := ofRun[f.Name]
		words := slices.Concat(flag.Words, ofCommands[f.Name])
		var complete cobra.CompletionFunc
		switch {
		case len(words) > 0:
			complete = cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
		case flag.Complete == settings.Hosts:
			complete = completeHosts
		case flag.Complete == settings.Folders:
			complete = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
		case flag.Complete == settings.Variables:
			complete = completeVariables
		case slices.Contains([]string{"int", "time", "ranks", "bytes", "list"}, f.Value.Type()):
			complete = cobra.NoFileCompletions
		default:
			return // the shell completes files
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // an error means a missing or registered flag
	})
}

// completeHosts completes the last name of a host list from the hostfile and the SSH configuration.
func completeHosts(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config := os.Getenv("GORUN_SSH_CONFIG")
	if f := cmd.Flags().Lookup("ssh-config"); f.Changed {
		config = f.Value.String()
	}
	names := ssh.KnownNames(config)
	if f := cmd.Flags().Lookup("hostfile"); f != nil && f.Changed {
		for _, name := range listed(f.Value.String()) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return lastHost(typed, names), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// listed returns the names in a hostfile; none if it cannot be read.
func listed(path string) (names []string) {
	file, err := trust.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	list, err := hostfile.Parse(path, file)
	if err != nil {
		return nil
	}
	for _, h := range list.Mentions() {
		names = append(names, h.Name)
	}
	return names
}

// lastHost returns typed, a list of hosts, completed by each of names. Hosts in the list are not
// offered again.
func lastHost(typed string, names []string) (lists []string) {
	before := ""
	last := typed
	if i := strings.LastIndexAny(typed, ",@^"); i >= 0 {
		before = typed[:i+1]
		last = typed[i+1:]
	}
	taken := strings.FieldsFunc(before, func(c rune) bool { return c == ',' })
	for i, host := range taken {
		taken[i], _, _ = strings.Cut(host, ":")
	}
	for _, name := range names {
		if strings.HasPrefix(name, last) && !slices.Contains(taken, name) {
			lists = append(lists, before+name)
		}
	}
	return lists
}

// completeVariables completes names of environment variables.
func completeVariables(_ *cobra.Command, _ []string, typed string) (names []cobra.Completion,
	_ cobra.ShellCompDirective) {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); name != "" && strings.HasPrefix(name, typed) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeProgram completes the program from PATH; paths and arguments complete as files.
func completeProgram(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || typed == "" || strings.Contains(typed, "/") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return programs(filepath.SplitList(os.Getenv("PATH")), typed), cobra.ShellCompDirectiveDefault
}

// programs returns the sorted names of executables in folders that begin with typed.
func programs(folders []string, typed string) (names []string) {
	for _, folder := range folders {
		entries, _ := os.ReadDir(folder)
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), typed) {
				continue
			}
			if info, err := os.Stat(filepath.Join(folder, e.Name())); err == nil && info.Mode().IsRegular() &&
				info.Mode()&0o111 != 0 {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
