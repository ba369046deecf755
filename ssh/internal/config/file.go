package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxIncludes is how deep ssh follows Include.
const maxIncludes = 16

// systemFile is read after the user's own.
const systemFile = "/etc/ssh/ssh_config"

// Config is a parsed configuration. It is safe for concurrent use.
type Config struct {
	files []file
	// unsure is why ssh may understand the files otherwise than this package, or nil.
	unsure error
}

type file []line

type line struct {
	keyword  string // in lower case
	args     []string
	included []file
}

// Read parses the named file, or without a name ~/.ssh/config and the system's file. Only a named
// file must exist.
func Read(name, home string) (*Config, error) {
	c := &Config{}
	userDir := filepath.Join(home, ".ssh")
	if name != "" {
		f, err := c.read(name, userDir, home, 0)
		if err != nil {
			return nil, err
		}
		c.files = []file{f}
		return c, nil
	}
	user := filepath.Join(userDir, "config")
	for _, source := range []struct{ name, dir string }{{user, userDir}, {systemFile, filepath.Dir(systemFile)}} {
		f, err := c.read(source.name, source.dir, home, 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.doubt(err)
		}
		c.files = append(c.files, f)
	}
	if info, err := os.Stat(user); err == nil && !ownersOnly(info) {
		c.doubt(fmt.Errorf("%s: others may write it", user)) // ssh refuses it, and says so
	}
	return c, nil
}

// ownersOnly reports whether nobody but the user and root may write a file.
func ownersOnly(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && (owner.Uid == 0 || int(owner.Uid) == os.Getuid()) && info.Mode().Perm()&0o022 == 0
}

func (c *Config) doubt(err error) {
	if c.unsure == nil {
		c.unsure = err
	}
}

// read parses one file, and those that it includes relative to dir.
func (c *Config) read(name, dir, home string, depth int) (file, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var lines file
	for text := range strings.Lines(string(text)) {
		text = strings.TrimSpace(text)
		if text == "" || text[0] == '#' {
			continue
		}
		l := c.parse(text)
		if l.keyword == "include" {
			for _, pattern := range l.args {
				l.included = append(l.included, c.include(pattern, dir, home, depth+1)...)
			}
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// include parses the files that an Include of pattern means.
func (c *Config) include(pattern, dir, home string, depth int) (files []file) {
	if depth > maxIncludes {
		c.doubt(fmt.Errorf("more than %d includes deep", maxIncludes))
		return nil
	}
	if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
		pattern = filepath.Join(home, rest)
	} else if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(dir, pattern)
	}
	names, err := filepath.Glob(pattern)
	if err != nil {
		c.doubt(err)
	}
	for _, name := range names {
		f, err := c.read(name, dir, home, depth)
		if err != nil {
			c.doubt(err)
		}
		files = append(files, f)
	}
	return files
}

// parse splits a line into its keyword and arguments.
func (c *Config) parse(text string) line {
	keyword, rest := text, ""
	if i := strings.IndexAny(text, " \t="); i >= 0 {
		keyword, rest = text[:i], strings.TrimLeft(text[i:], " \t")
		rest = strings.TrimLeft(strings.TrimPrefix(rest, "="), " \t")
	}
	l := line{keyword: strings.ToLower(keyword)}
	if l.keyword == "proxycommand" { // a shell's, to the end of the line
		l.args = []string{rest}
		return l
	}
	for _, word := range strings.Fields(rest) {
		l.args = append(l.args, strings.Trim(word, `"`))
	}
	if needsSSH(l.keyword, rest) {
		c.doubt(fmt.Errorf("only ssh can judge %q", text))
	}
	return l
}

// needsSSH reports whether this package may misunderstand a line.
func needsSSH(keyword, rest string) bool {
	switch keyword {
	case "canonicalizehostname":
		return strings.ToLower(rest) != "no"
	case "hostname":
		rest = strings.ReplaceAll(rest, "%h", "")
		return strings.ContainsAny(rest, "\"'\\%$# \t")
	case "host", "include":
		return strings.ContainsAny(rest, "\"'\\%$#")
	}
	return rest == "" || strings.ContainsAny(rest, "\"'\\#") || !slices.Contains(strings.Fields(keywords), keyword)
}

// keywords are those of ssh_config(5) that have no effect on what other lines mean.
const keywords = `addkeystoagent addressfamily batchmode bindaddress bindinterface canonicaldomains
canonicalizefallbacklocal canonicalizemaxdots canonicalizepermittedcnames casignaturealgorithms
certificatefile checkhostip ciphers clearallforwardings compression connectionattempts connecttimeout
controlmaster controlpath controlpersist dynamicforward enableescapecommandline enablesshkeysign
escapechar exitonforwardfailure fingerprinthash forkafterauthentication forwardagent forwardx11
forwardx11timeout forwardx11trusted gatewayports globalknownhostsfile gssapiauthentication
gssapidelegatecredentials gssapikeyexchange hashknownhosts hostbasedacceptedalgorithms
hostbasedauthentication hostkeyalgorithms hostkeyalias identitiesonly identityagent identityfile ipqos
kbdinteractiveauthentication kexalgorithms localcommand localforward loglevel macs
nohostauthenticationforlocalhost numberofpasswordprompts passwordauthentication permitlocalcommand
permitremoteopen pkcs11provider port preferredauthentications proxyjump proxyusefdpass
pubkeyacceptedalgorithms pubkeyacceptedkeytypes pubkeyauthentication rekeylimit remotecommand
remoteforward requesttty requiredrsasize revokedhostkeys sendenv serveralivecountmax serveraliveinterval sessiontype
setenv stdinnull streamlocalbindmask streamlocalbindunlink stricthostkeychecking syslogfacility
tcpkeepalive tunnel tunneldevice updatehostkeys user userknownhostsfile verifyhostkeydns visualhostkey
xauthlocation`
