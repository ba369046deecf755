package agent

import (
	"os"

	"github.com/gorun/gorun/internal/host/contain"
)

// startHelper starts a process in the ranks' cage that serves them.
func (a *agent) startHelper(path string, argv, env []string, files []*os.File) error {
	r := startRequest{
		rank: noRank,
		path: path,
		argv: argv,
		dir:  "/",
		env:  append(env, contain.Variable+"="+a.guard.String()),
	}
	for _, f := range files {
		r.files = append(r.files, f.Fd())
	}
	return a.procs.start(r)
}
