package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/ssh"
)

// configCommand is gorun config, which asks for the hosts of a user's jobs, checks them, and writes
// them as the user's defaults.
type configCommand struct {
	jobCommand
	defaults bool // asks nothing
	replace  bool
	answers  *bufio.Reader
}

func newConfig(call *invocation) *cobra.Command {
	c := &configCommand{jobCommand: jobCommand{invocation: call}}
	cmd := &cobra.Command{
		Use:   "config [flags]",
		Short: "Ask for your hosts, check them, and write your defaults",
		Long: `config asks for the hosts of your jobs, connects to each, and writes them to
~/.config/gorun/config.yaml, from which every later run takes what its command line leaves out.
Flags of a run that are given here are written too, and their questions left out. With --defaults
it asks nothing. The exit code is 1 if a host failed.`,
		Example: `  gorun config
  gorun config --defaults -H f1:4,f2:4 --stage .
  gorun config --replace --hostfile hosts.txt --gpus-per-rank 1`,
		Args: noProgram,
	}
	cmd.Flags().BoolVar(&c.defaults, "defaults", false, "ask nothing: write the flags that are given")
	cmd.Flags().BoolVar(&c.replace, "replace", false, "replace the file if there is one")
	return c.takeJobFlags(cmd, c, settings.Connects)
}

// Run asks, checks and writes. The code is 1 if a host failed.
func (c *configCommand) Run(ctx context.Context) (code int, err error) {
	path := settings.DefaultsFile(os.LookupEnv)
	if path == "" {
		return 0, usage.Errorf("set HOME", "there is no folder for your defaults")
	}
	c.answers = bufio.NewReader(c.stdin)
	if may, err := c.mayWrite(path); !may {
		return 0, err
	}
	if err := c.askHosts(); err != nil {
		return 0, err
	}
	chosen := c.given()
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	if err := settings.CheckCommands(c.flags, chosen, dir); err != nil {
		return 0, err
	}
	c.o.Config = os.DevNull // the file that is replaced does not count
	if _, err := c.complete(); err != nil {
		return 0, err
	}
	failed, slots, err := c.probe(ctx)
	if err != nil {
		return 0, err
	}
	if accepts, err := c.askHostKeys(failed); err != nil {
		return 0, err
	} else if accepts {
		chosen = append(chosen, "host-keys")
		if failed, slots, err = c.probe(ctx); err != nil {
			return 0, err
		}
	}
	if goes, err := c.askFailed(failed); !goes {
		return 1, err
	}
	if staged, err := c.askFolders(chosen); err != nil {
		return 0, err
	} else if staged {
		chosen = append(chosen, "stage")
	}
	if err := c.write(path, dir, chosen); err != nil {
		return 0, err
	}
	fmt.Fprintf(c.plain, "wrote %s\nnow type: gorun -np %d hostname\n", path, max(slots, 1))
	return min(len(failed), 1), nil
}

// mayWrite asks whether a file that is there may be replaced.
func (c *configCommand) mayWrite(path string) (may bool, err error) {
	if _, err := os.Lstat(path); c.replace || errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if c.defaults {
		return false, usage.Errorf("to replace it, add --replace; to change it, edit it", "%s is there", path)
	}
	return c.yes(fmt.Sprintf("%s is there. Replace it?", path), false)
}

// askHosts asks for hosts until they can be read.
func (c *configCommand) askHosts() error {
	if c.defaults || settings.HostsChosen(c.flags) {
		return nil
	}
	for {
		answer, err := c.ask("Hosts with their slots, as f1:4,f2:4, or the name of a hostfile", "localhost")
		if err != nil {
			return err
		}
		if isHostfile(answer) {
			return c.flags.Set("hostfile", answer)
		}
		if _, err := hostfile.ParseList(answer); err == nil {
			return c.flags.Set("hosts", answer)
		} else {
			c.console.Report(err)
		}
	}
}

// isHostfile reports whether an answer names a hostfile. In the current folder others may have
// given a file the name of a host, so that their files are named by paths.
func isHostfile(answer string) bool {
	if _, err := os.Stat(answer); err != nil {
		return false
	}
	return strings.Contains(answer, "/") || trust.Check(answer) == nil
}

// given returns the flags that are set, in the order of the help.
func (c *configCommand) given() (names []string) {
	given := settings.Given(c.flags)
	for _, group := range c.o.Groups() {
		for _, f := range group.Flags {
			if given[f.Name] {
				names = append(names, f.Name)
			}
		}
	}
	return names
}

// probe connects to the hosts and prints a line for each. It returns those that failed, and the
// number of slots.
func (c *configCommand) probe(ctx context.Context) (failed []launcher.HostError, slots int, err error) {
	list, reach, err := c.list(ctx, true)
	if err != nil {
		return nil, 0, err
	}
	failed = list.check(ctx, reach)
	if err := list.writeTable(c.plain); err != nil {
		return nil, 0, err
	}
	reportFailed(failed, c.console)
	return failed, list.where.Slots(), nil
}

// askHostKeys asks whether keys of hosts that are new may be accepted, where any is.
func (c *configCommand) askHostKeys(failed []launcher.HostError) (accepts bool, err error) {
	unknown := slices.ContainsFunc(failed, func(h launcher.HostError) bool {
		var key *ssh.UnknownHostKeyError
		return errors.As(h.Err, &key)
	})
	if !unknown || c.defaults || c.flags.Changed("host-keys") {
		return false, nil
	}
	accepts, err = c.yes("Accept the keys of hosts that are new, without a look at them? Changed keys stay errors.",
		false)
	if accepts {
		err = c.flags.Set("host-keys", "accept-new")
	}
	return accepts, err
}

// askFailed asks whether hosts that failed are written all the same.
func (c *configCommand) askFailed(failed []launcher.HostError) (goes bool, err error) {
	if len(failed) == 0 || c.defaults {
		return true, nil
	}
	return c.yes("Write these hosts all the same?", false)
}

// askFolders asks whether the hosts see the user's folders.
func (c *configCommand) askFolders(chosen []string) (staged bool, err error) {
	if c.defaults || slices.Contains(chosen, "stage") || c.o.Hosts == "localhost" {
		return false, nil
	}
	shared, err := c.yes("Do the hosts see your folders, as on a shared home? If not, each job copies its own there.",
		true)
	if shared || err != nil {
		return false, err
	}
	return true, c.flags.Set("stage", ".")
}

// write writes the file of defaults. Relative paths start at dir.
func (c *configCommand) write(path, dir string, chosen []string) error {
	text, err := settings.FileOf(c.flags, chosen, dir)
	if err != nil {
		return err
	}
	head := "# Defaults of gorun, which a job file, GORUN_ variables and the command line override.\n" +
		"# gorun --help has all settings: --timeout 10m is the line timeout: 10m.\n\n"
	if err := trust.MakeDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write the defaults: %w", err)
	}
	if err := trust.WriteFile(path, append([]byte(head), text...)); err != nil {
		return fmt.Errorf("write the defaults: %w", err)
	}
	return nil
}

// yes asks a question that has yes or no as its answer.
func (c *configCommand) yes(question string, byDefault bool) (bool, error) {
	choice := "no"
	if byDefault {
		choice = "yes"
	}
	for {
		answer, err := c.ask(question+" (yes or no)", choice)
		if err != nil {
			return false, err
		}
		switch strings.ToLower(answer) {
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		}
	}
}

// ask prints a question and returns the answer, or the default for an empty one.
func (c *configCommand) ask(question, byDefault string) (string, error) {
	fmt.Fprintf(c.stderr, "%s [%s]: ", question, byDefault)
	line, err := c.answers.ReadString('\n')
	if answer := strings.TrimSpace(line); answer != "" {
		return answer, nil
	}
	if err == io.EOF {
		return "", usage.Errorf("gorun config --defaults -H f1:4,f2:4 asks nothing", "the answers have ended")
	}
	return byDefault, err
}
