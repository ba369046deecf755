package lookup

import (
	"os"

	"github.com/gorun/gorun/internal/net/wire"
)

// EnterStart changes to the directory in which the host started the session, or to the top if it is
// gone. The shell that started this process could not: it found gorun in the current directory.
func EnterStart() {
	dir, set := os.LookupEnv(wire.StartDirectory)
	if !set {
		return
	}
	os.Unsetenv(wire.StartDirectory)
	if os.Chdir(dir) != nil {
		_ = os.Chdir("/")
	}
}
