package ssh

import (
	"crypto/sha1"
	"encoding/hex"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// environment is the part of a configuration that depends on this machine.
type environment struct {
	home, user, hostname string
	uid                  int
	getenv               func(string) string
}

func thisMachine() environment {
	env := environment{uid: os.Getuid(), getenv: os.Getenv}
	env.hostname, _ = os.Hostname()
	env.home, _ = os.UserHomeDir()
	env.user = os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		// ssh uses the account, whatever the environment says.
		env.user = u.Username
		env.home = or(u.HomeDir, env.home)
	}
	if !filepath.IsAbs(env.home) {
		env.home = "/" // never the current directory, in which others may have put a .ssh
	}
	return env
}

// expander replaces what ssh_config(5) allows in values: %-tokens, ~ and ${NAME}.
type expander struct {
	env           environment
	tokenReplacer *strings.Replacer
}

// expander returns the expander for s, whose host, port, user, jump and alias are set.
func (env environment) expander(s settings) expander {
	return expander{env, strings.NewReplacer(env.tokens(s)...)}
}

// tokens returns what ssh replaces in most values, and by what.
func (env environment) tokens(s settings) []string {
	short, _, _ := strings.Cut(env.hostname, ".")
	port := strconv.Itoa(s.port)
	// The hash names connections in paths; it protects no secret.
	hash := sha1.Sum([]byte(env.hostname + s.hostname + port + s.user + s.jump))
	return []string{
		"%%", "%", "%C", hex.EncodeToString(hash[:]), "%d", env.home, "%h", s.hostname, "%i", strconv.Itoa(env.uid),
		"%j", s.jump, "%k", or(s.hostKeyAlias, s.alias), "%L", short, "%l", env.hostname, "%n", s.alias,
		"%p", port, "%r", s.user, "%u", env.user}
}

func (x expander) tokens(text string) string { return x.tokenReplacer.Replace(text) }

func (x expander) path(name string) string {
	name = x.variables(x.tokens(name))
	if name == "~" {
		return x.env.home
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		return filepath.Join(x.env.home, rest)
	}
	return name
}

// paths expands file names and drops "none".
func (x expander) paths(names []string) []string {
	var out []string
	for _, name := range names {
		if name != "none" {
			out = append(out, x.path(name))
		}
	}
	return out
}

// variables replaces ${NAME}.
func (x expander) variables(text string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "${")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			b.WriteString("${" + rest)
			return b.String()
		}
		b.WriteString(x.env.getenv(name))
		text = after
	}
}

// agent returns the agent's socket: IdentityAgent is a path, a variable or "none"; the default is
// SSH_AUTH_SOCK.
func (x expander) agent(value string) string {
	switch {
	case value == "SSH_AUTH_SOCK" || value == "":
		return x.env.getenv("SSH_AUTH_SOCK")
	case value == "none":
		return ""
	case value[0] == '$' && !strings.HasPrefix(value, "${"):
		return x.env.getenv(value[1:])
	}
	return x.path(value)
}
