package ssh

import (
	"context"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/ssh/internal/config"
	"github.com/gorun/gorun/ssh/internal/knownhosts"
)

// Resolver reads each configuration file once for the hosts of a job, and known_hosts files when
// they have changed. The zero value is ready, and nil reads for each host. It is safe for
// concurrent use.
type Resolver struct {
	mu      sync.Mutex
	configs map[string]*config.Config // configurations by Config.ConfigFile
	known   map[string]knownFile      // known_hosts files by path

	learning learning
}

// learning lets one connection at a time add to known_hosts.
type learning struct {
	sync.Mutex
	unlocked bool // whether another process has held the file's lock for lockTime
}

// knownFile is a known_hosts file as it was read.
type knownFile struct {
	*knownhosts.File
	size     int64
	modified time.Time
}

func (r *Resolver) read(file, home string) (*config.Config, error) {
	if r == nil {
		return config.Read(file, home)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.configs[file]; c != nil {
		return c, nil
	}
	c, err := config.Read(file, home)
	if err != nil {
		return nil, err
	}
	if r.configs == nil {
		r.configs = map[string]*config.Config{}
	}
	r.configs[file] = c
	return c, nil
}

// knownHosts returns the known_hosts file at path.
func (r *Resolver) knownHosts(path string) (*knownhosts.File, error) {
	if r == nil {
		return knownhosts.Read(path)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, err := os.Stat(path) // before it is read: what is added meanwhile makes the next host read again
	if err != nil {
		return nil, err
	}
	if k, read := r.known[path]; read && k.size == now.Size() && k.modified.Equal(now.ModTime()) {
		return k.File, nil
	}
	file, err := knownhosts.Read(path)
	if err != nil {
		return nil, err
	}
	if r.known == nil {
		r.known = map[string]knownFile{}
	}
	r.known[path] = knownFile{file, now.Size(), now.ModTime()}
	return file, nil
}

// resolve returns how to reach c.Host.
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
	env := thisMachine()
	values, err := c.options(ctx, env.home)
	if err != nil {
		return settings{}, err
	}
	s, err := c.merge(func(keyword string) []string { return values[keyword] }, env)
	s.byHand = c.byHand()
	return s, err
}

// byHand returns the arguments with which a person reaches the host by ssh(1) or ssh-copy-id(1).
func (c Config) byHand() (args []string) {
	if c.ConfigFile != "" {
		args = append(args, "-F", c.ConfigFile)
	}
	if c.Port != 0 {
		args = append(args, "-p", strconv.Itoa(c.Port))
	}
	if c.User != "" {
		return append(args, c.User+"@"+c.Host)
	}
	return append(args, c.Host)
}

// options returns the configured options of the host. It runs ssh only where the configuration
// needs it, because that costs milliseconds of a processor for each host. Without ssh, Match blocks
// do not count.
func (c Config) options(ctx context.Context, home string) (map[string][]string, error) {
	read, err := c.Resolver.read(c.ConfigFile, home)
	if err != nil {
		return nil, err
	}
	values, unsure := read.Values(c.Host)
	program, err := trust.Program("ssh", os.Getenv("PATH"))
	if err != nil {
		return values, nil
	}
	// An ssh other than the system's has its system file elsewhere.
	if unsure == nil && (c.ConfigFile != "" || program == "/usr/bin/ssh") {
		return values, nil
	}
	if values, err = config.Ask(ctx, program, c.arguments()...); err != nil {
		return nil, foreign{err}
	}
	return values, nil
}

// arguments returns the arguments of ssh -G for the host.
func (c Config) arguments() []string {
	var args []string
	if c.ConfigFile != "" {
		args = append(args, "-F", c.ConfigFile)
	}
	if c.Port != 0 {
		args = append(args, "-p", strconv.Itoa(c.Port))
	}
	if c.User != "" {
		args = append(args, "-l", c.User)
	}
	return append(args, "--", c.Host)
}
