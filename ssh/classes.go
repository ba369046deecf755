package ssh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Resolver asks ssh once for hosts of which its configuration says the same, for asking
// takes milliseconds of a processor and jobs have thousands of hosts. The zero value is
// ready, and nil asks for each host. Safe for concurrent use. It reads the configuration's
// files once.
type Resolver struct {
	mu      sync.Mutex
	rules   map[string]*hostRules // by ConfigFile; nil: hosts of it are asked for one by one
	answers map[class]*answer
}

// class is what ssh's answer depends on, but for the host's own name in it.
type class struct {
	file, user string
	port       int
	blocks     string // a byte for each Host line: it is the host's or not
}

// answer is what ssh said of the first host of a class.
type answer struct {
	host   string
	ready  chan struct{}
	values map[string][]string
	err    error
}

// ask returns what ssh says of c.Host, by itself or as another host's.
func (r *Resolver) ask(ctx context.Context, c Config, home string, run func(context.Context) (map[string][]string, error)) (map[string][]string, error) {
	if r == nil {
		return run(ctx)
	}
	key, ok := r.classOf(c, home)
	if !ok {
		return run(ctx)
	}
	r.mu.Lock()
	a, asked := r.answers[key]
	if !asked {
		a = &answer{host: c.Host, ready: make(chan struct{})}
		if r.answers == nil {
			r.answers = map[class]*answer{}
		}
		r.answers[key] = a
	}
	r.mu.Unlock()
	if !asked {
		a.values, a.err = run(ctx)
		close(a.ready)
		return a.values, a.err
	}
	select {
	case <-a.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if a.err != nil {
		return run(ctx)
	}
	return a.as(c.Host), nil
}

// as is the answer with another host's name.
func (a *answer) as(host string) map[string][]string {
	values := make(map[string][]string, len(a.values))
	for keyword, list := range a.values {
		values[keyword] = list
	}
	for _, keyword := range []string{"host", "hostname"} {
		if slices.Equal(values[keyword], []string{a.host}) {
			values[keyword] = []string{host}
		}
	}
	return values
}

// classOf returns the class of c.Host; none where ssh must be asked.
func (r *Resolver) classOf(c Config, home string) (class, bool) {
	if strings.Trim(c.Host, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "" {
		return class{}, false
	}
	r.mu.Lock()
	rules, read := r.rules[c.ConfigFile]
	if !read {
		if r.rules == nil {
			r.rules = map[string]*hostRules{}
		}
		rules = readHostRules(c.ConfigFile, home)
		r.rules[c.ConfigFile] = rules
	}
	r.mu.Unlock()
	if rules == nil || slices.Contains(rules.names, c.Host) {
		return class{}, false
	}
	return class{c.ConfigFile, c.User, c.Port, rules.blocksOf(c.Host)}, true
}

// hostRules is all in a configuration that makes hosts differ.
type hostRules struct {
	blocks [][]string // the patterns of each Host line
	names  []string   // values of HostName
}

// readHostRules reads the files that ssh reads. nil: they hold what only ssh can judge.
func readHostRules(file, home string) *hostRules {
	// Another ssh than the system's has its system file elsewhere.
	if program, err := exec.LookPath("ssh"); err != nil || program != "/usr/bin/ssh" && file == "" {
		return nil
	}
	var rules hostRules
	read := func(file, dir string) error { return rules.read(file, dir, home, 0) }
	userDir := filepath.Join(home, ".ssh")
	var err error
	if file != "" {
		err = read(file, userDir)
	} else {
		err = errors.Join(read(filepath.Join(userDir, "config"), userDir), read("/etc/ssh/ssh_config", "/etc/ssh"))
	}
	if err != nil {
		return nil
	}
	return &rules
}

// maxIncludes is how deep ssh follows Include.
const maxIncludes = 16

// read adds one file, and those that it includes relative to dir.
func (r *hostRules) read(file, dir, home string, depth int) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		words := strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(" \t\r\n=", c) })
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		includes, err := r.add(strings.ToLower(words[0]), words[1:])
		if err != nil {
			return err
		}
		for _, pattern := range includes {
			if depth == maxIncludes {
				return fmt.Errorf("%s: more than %d includes deep", file, maxIncludes)
			}
			found, err := included(pattern, dir, home)
			if err != nil {
				return err
			}
			for _, f := range found {
				if err := r.read(f, dir, home, depth+1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// included are the files that an Include of pattern means, where relative ones begin in dir.
func included(pattern, dir, home string) ([]string, error) {
	if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
		pattern = filepath.Join(home, rest)
	} else if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(dir, pattern)
	}
	return filepath.Glob(pattern)
}

// errOnlySSH says that a line needs ssh itself.
var errOnlySSH = errors.New("only ssh can judge this line")

// add takes one line, and returns the files it includes.
func (r *hostRules) add(keyword string, values []string) (includes []string, err error) {
	all := strings.Join(values, " ")
	switch keyword {
	case "match":
		return nil, errOnlySSH
	case "canonicalizehostname":
		if strings.ToLower(all) != "no" {
			return nil, errOnlySSH
		}
	case "host", "include", "hostname":
		if strings.ContainsAny(all, "\"'\\%$#") {
			return nil, errOnlySSH
		}
	}
	switch keyword {
	case "host":
		r.blocks = append(r.blocks, values)
	case "hostname":
		r.names = append(r.names, values...)
	case "include":
		return values, nil
	}
	return nil, nil
}

// blocksOf says which Host lines are host's.
func (r *hostRules) blocksOf(host string) string {
	marks := make([]byte, len(r.blocks))
	for i, patterns := range r.blocks {
		marks[i] = '-'
		for _, p := range patterns {
			negated := strings.HasPrefix(p, "!")
			if !matches(strings.TrimPrefix(p, "!"), host) {
				continue
			}
			marks[i] = '+'
			if negated {
				marks[i] = '-'
				break
			}
		}
	}
	return string(marks)
}

// matches is ssh's pattern matching: * is any text, ? any character.
func matches(pattern, text string) bool {
	for ; pattern != ""; pattern, text = pattern[1:], text[1:] {
		if pattern[0] == '*' {
			rest := strings.TrimLeft(pattern, "*")
			for i := range len(text) + 1 {
				if matches(rest, text[i:]) {
					return true
				}
			}
			return false
		}
		if text == "" || pattern[0] != '?' && pattern[0] != text[0] {
			return false
		}
	}
	return text == ""
}
