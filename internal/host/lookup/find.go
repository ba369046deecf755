// Package lookup finds the programs that an agent starts, and explains why one cannot be started
// there.
package lookup

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
)

// Place is where a program is to be started.
type Place struct {
	Dir   string // working directory; "": that of this process
	Hosts bool   // whether hints are about a host of a job, not about this machine alone
}

// hint returns the hint for this machine alone, or that for a host.
func (p Place) hint(alone, host string) string {
	if p.Hosts {
		return host
	}
	return alone
}

// Find finds name as a shell in p's directory would, and checks that it can be executed, so that a
// mistake is reported once a host, not once a rank.
func (p Place) Find(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		full := p.below(name)
		return full, p.check(full)
	}
	if path == "" {
		path = "/usr/local/bin:/usr/bin:/bin"
	}
	var denied string
	for _, d := range filepath.SplitList(path) {
		full := filepath.Join(p.below(d), name)
		info, err := os.Stat(full)
		if err != nil || info.IsDir() {
			continue
		}
		if executable(full) {
			return full, p.check(full)
		}
		denied = full
	}
	if denied != "" {
		return "", p.check(denied)
	}
	return "", wire.Refusef(wire.CodeNotFound, p.elsewhere(name, path), "the program %q was not found in PATH", name)
}

// elsewhere returns what to type instead of a name that is not in path.
func (p Place) elsewhere(name, path string) string {
	if info, err := os.Stat(p.below(name)); err == nil && !info.IsDir() {
		return "there is one in the working directory: write ./" + name
	}
	var names []string
	for _, d := range filepath.SplitList(path) {
		names = append(names, similar(p.below(d), name))
	}
	if like := usage.Similar(name, names); like != "" {
		return didYouMean(like)
	}
	if like := similar(p.Dir, name); like != "" {
		return didYouMean("./" + like)
	}
	return p.hint("give its path, or add its folder to PATH",
		"give its path, or add its folder to PATH, which ranks get from here")
}

// similar returns the program in a folder whose name is most like name, or "".
func similar(folder, name string) string {
	like := usage.SimilarFile(folder, name)
	full := filepath.Join(folder, like)
	if info, err := os.Stat(full); err != nil || !info.Mode().IsRegular() || !executable(full) {
		return ""
	}
	return like
}

func didYouMean(program string) string { return "did you mean " + prose.Quoted(program) + "?" }
