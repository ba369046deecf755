package ssh

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// KnownNames are the hosts that a user has names for, sorted: those of Host lines in the
// configuration file and the files that it includes, and those of ~/.ssh/known_hosts that are not hashed. An
// empty config is ~/.ssh/config. It is for completion: files that cannot be read are left out.
func KnownNames(config string) []string {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	folder := filepath.Join(home, ".ssh")
	if config == "" {
		config = filepath.Join(folder, "config")
	}
	names := configNames(config, folder, 4)
	eachLine(filepath.Join(folder, "known_hosts"), func(line string) { names = append(names, knownHostNames(line)...) })
	slices.Sort(names)
	return slices.Compact(names)
}

// configNames are the names in a configuration file that stand for one host each. depth bounds how far files
// that include files are followed.
func configNames(file, folder string, depth int) (names []string) {
	eachLine(file, func(line string) {
		words := strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(" \t=\"", c) })
		if len(words) < 2 {
			return
		}
		switch strings.ToLower(words[0]) {
		case "host":
			for _, name := range words[1:] {
				if !strings.ContainsAny(name, "*?!#") {
					names = append(names, name)
				}
			}
		case "include":
			for _, pattern := range words[1:] {
				found, _ := included(pattern, folder, filepath.Dir(folder))
				for _, f := range found {
					if depth > 0 {
						names = append(names, configNames(f, folder, depth-1)...)
					}
				}
			}
		}
	})
	return names
}

// knownHostNames are the names that a line of known_hosts has a key for, without ports.
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

// eachLine calls use for every line of a file.
func eachLine(file string, use func(line string)) {
	f, err := os.Open(file)
	if err != nil {
		return
	}
	defer f.Close()
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		use(strings.TrimSpace(scanner.Text()))
	}
}
