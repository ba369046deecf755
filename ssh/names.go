package ssh

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/ssh/internal/config"
)

// KnownNames returns the hosts that a user has names for, sorted: those on Host lines of the
// configuration file and the files that it includes, and those of ~/.ssh/known_hosts that are not
// hashed. An empty file means ~/.ssh/config. It is for completion: files that cannot be read are
// left out.
func KnownNames(file string) []string {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	if file == "" {
		file = filepath.Join(home, ".ssh", "config")
	}
	var names []string
	if c, err := config.Read(file, home); err == nil {
		names = c.Hosts()
	}
	known, err := trust.Open(filepath.Join(home, ".ssh", "known_hosts"))
	if err == nil {
		defer known.Close()
		for lines := bufio.NewScanner(known); lines.Scan(); {
			names = append(names, knownHostNames(strings.TrimSpace(lines.Text()))...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// knownHostNames returns the hosts of a known_hosts line, without ports.
func knownHostNames(line string) (names []string) {
	first, _, _ := strings.Cut(line, " ")
	if first == "" || strings.ContainsAny(first[:1], "#@|") {
		return nil
	}
	for name := range strings.SplitSeq(first, ",") {
		if host, _, found := strings.Cut(strings.TrimPrefix(name, "["), "]:"); found {
			name = host
		}
		if !strings.ContainsAny(name, "*?!|") {
			names = append(names, name)
		}
	}
	return names
}
