package ssh

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kevinburke/ssh_config"
)

// resolve finds out how to reach c.Host. ssh itself is asked when it is there,
// because no other program reads all of its configuration.
func resolve(ctx context.Context, c Config) (settings, error) {
	s, err := c.resolve(ctx)
	if err != nil {
		return s, &ConfigError{c.Host, err}
	}
	return s, nil
}

func (c Config) resolve(ctx context.Context) (settings, error) {
	if err := c.check(); err != nil {
		return settings{}, err
	}
	if c.ConfigFile != "" {
		// ssh would say so too, but only in passing.
		if _, err := os.Stat(c.ConfigFile); err != nil {
			return settings{}, err
		}
	}
	env := thisMachine()
	values, err := c.Resolver.ask(ctx, c, env.home, c.askSSH)
	get := func(keyword string) []string { return values[keyword] }
	if errors.Is(err, exec.ErrNotFound) {
		get, err = c.readFiles(env.home)
	}
	if err != nil {
		return settings{}, err
	}
	return c.merge(get, env)
}

// askSSH has ssh -G print the configuration of the host. The error wraps
// exec.ErrNotFound when there is no ssh.
func (c Config) askSSH(ctx context.Context) (map[string][]string, error) {
	program, err := exec.LookPath("ssh")
	if err != nil {
		return nil, err
	}
	args := []string{"-G"}
	if c.ConfigFile != "" {
		args = append(args, "-F", c.ConfigFile)
	}
	if c.Port != 0 {
		args = append(args, "-p", strconv.Itoa(c.Port))
	}
	if c.User != "" {
		args = append(args, "-l", c.User)
	}
	cmd := exec.CommandContext(ctx, program, append(args, "--", c.Host)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second // a command of its Match exec that hangs holds stderr open
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("ssh -G: %w: %s", err, printable(stderr.String()))
	}
	return parseDump(out), nil
}

// parseDump reads what ssh -G prints: a keyword and a value on each line, the
// keyword again for another value.
func parseDump(out []byte) map[string][]string {
	values := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		keyword, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		keyword = strings.ToLower(keyword)
		values[keyword] = append(values[keyword], strings.TrimSpace(value))
	}
	return values
}

// readFiles is the way without ssh: a parser of our own kind, which knows no
// Match. A system or home file that it cannot read counts as empty; one the
// caller named does not.
func (c Config) readFiles(home string) (func(string) []string, error) {
	files := []string{c.ConfigFile}
	if c.ConfigFile == "" {
		files = []string{filepath.Join(home, ".ssh", "config"), "/etc/ssh/ssh_config"}
	}
	var configs []*ssh_config.Config
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			var parsed *ssh_config.Config
			if parsed, err = ssh_config.DecodeBytes(dropMatch(text)); err == nil {
				configs = append(configs, parsed)
			}
		}
		if err != nil && c.ConfigFile != "" {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return func(keyword string) []string { return lookUp(configs, c.Host, keyword) }, nil
}

// lookUp collects a keyword's values in the order of the files: the first one
// counts, or all of them for keywords that may be given often.
func lookUp(configs []*ssh_config.Config, host, keyword string) []string {
	var values []string
	for _, config := range configs {
		more, err := config.GetAll(host, keyword)
		if err == nil {
			values = append(values, more...)
		}
	}
	return values
}

// dropMatch removes Match blocks, which the parser takes for errors or, worse,
// for Host blocks.
func dropMatch(text []byte) []byte {
	var out bytes.Buffer
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	skip := false
	for lines.Scan() {
		word, _, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(lines.Text(), "\t", " ")), " ")
		switch strings.ToLower(word) {
		case "match":
			skip = true
		case "host":
			skip = false
		}
		if !skip {
			out.Write(bytes.TrimRight(lines.Bytes(), "\r"))
		}
		out.WriteByte('\n') // keep line numbers
	}
	return out.Bytes()
}
