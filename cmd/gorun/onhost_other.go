//go:build !linux

package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/gorun/gorun/cmd/gorun/internal/exitcode"
	"github.com/gorun/gorun/launcher"
)

// runOnHost refuses to be an agent: agents run on Linux.
func runOnHost(args []string) (code int, ran bool) {
	if len(args) == 0 || args[0] != launcher.AgentCommand {
		return 0, false
	}
	fmt.Fprintf(os.Stderr, "gorun: this gorun is for %s, and agents run on Linux\n", runtime.GOOS)
	return exitcode.Usage, true
}

// keepSecrets does nothing: only Linux lets a process refuse core files and debuggers.
func keepSecrets() {}
