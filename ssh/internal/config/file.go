package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/files/trust"
)

// maxFile is the largest size of a file in bytes.
const maxFile = 16 << 20

// maxIncludes is how deep ssh follows Include.
const maxIncludes = 16

// systemFile is read after the user's own.
const systemFile = "/etc/ssh/ssh_config"

// Config is a parsed configuration. It is safe for concurrent use.
type Config struct {
	files []file
	// unsure is the reason why ssh may read the files differently from this package, or nil.
	unsure error
	// refused is the first file that another user could have written, or that is a pipe, or nil.
	refused error
}

type file []line

type line struct {
	keyword  string // in lower case
	args     []string
	included []file
}

// Read parses the named file, or without a name ~/.ssh/config and the system's file. Only a named
// file must exist. As with ssh, no other user may be able to write ~/.ssh/config and the files that
// it or a named one includes: the error is a *trust.Error. Pipes are refused too.
func Read(name, home string) (*Config, error) {
	c := &Config{}
	userDir := filepath.Join(home, ".ssh")
	if name != "" {
		f, err := c.read(source{name: name, dir: userDir, home: home})
		if err != nil {
			return nil, err
		}
		c.files = []file{f}
		return c, c.refused
	}
	for _, from := range []source{
		{name: filepath.Join(userDir, "config"), dir: userDir, home: home, private: true},
		{name: systemFile, dir: filepath.Dir(systemFile), home: home, system: true},
	} {
		f, err := c.read(from)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.doubt(err)
		}
		c.files = append(c.files, f)
	}
	return c, c.refused
}

// source is a file to read.
type source struct {
	name, dir, home string // path, base of relative included names, and home directory
	depth           int    // depth of nested Include
	private         bool   // whether no other user may have write access to the file
	system          bool   // whether the administrator is responsible for the file and its includes
}

// judge refuses a file that another user could have written. Where only a group with the owner's
// number may write, which is the owner's private group on usual systems, ssh decides.
func (c *Config) judge(name string, opened *os.File) error {
	info, err := opened.Stat()
	if err == nil {
		err = trust.File(opened, name)
	}
	if err == nil && info.Mode().Perm()&0o020 != 0 {
		c.doubt(fmt.Errorf("%s: a group may write it", name))
	}
	if c.refused == nil {
		c.refused = err
	}
	return err
}

func (c *Config) doubt(err error) {
	if c.unsure == nil {
		c.unsure = err
	}
}

// read parses one file, and those that it includes.
func (c *Config) read(from source) (file, error) {
	opened, err := trust.Open(from.name)
	if errors.Is(err, trust.ErrIrregular) && c.refused == nil {
		c.refused = err // ssh would wait
	}
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	if from.private {
		if err := c.judge(from.name, opened); err != nil {
			return nil, err
		}
	}
	text, err := trust.ReadAll(opened, maxFile)
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
				l.included = append(l.included, c.include(pattern, from)...)
			}
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// include parses the files that an Include of pattern in a file means.
func (c *Config) include(pattern string, in source) (files []file) {
	if in.depth == maxIncludes {
		c.doubt(fmt.Errorf("more than %d includes deep", maxIncludes))
		return nil
	}
	if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
		pattern = filepath.Join(in.home, rest)
	} else if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(in.dir, pattern)
	}
	names, err := filepath.Glob(pattern)
	if err != nil {
		c.doubt(err)
	}
	for _, name := range names {
		next := in
		next.name = name
		next.depth = in.depth + 1
		next.private = !in.system
		f, err := c.read(next)
		if err != nil {
			c.doubt(err)
		}
		files = append(files, f)
	}
	return files
}

// parse splits a line into its keyword and arguments.
func (c *Config) parse(text string) line {
	keyword := text
	rest := ""
	if i := strings.IndexAny(text, " \t="); i >= 0 {
		keyword = text[:i]
		rest = strings.TrimLeft(text[i:], " \t")
		rest = strings.TrimLeft(strings.TrimPrefix(rest, "="), " \t")
	}
	l := line{keyword: strings.ToLower(keyword)}
	if l.keyword == "proxycommand" { // the rest of the line is a shell command
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
