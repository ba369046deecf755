package attacks

import (
	"os"
	"testing"

	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
)

// attacker is a user on the hosts who has no relation to the ranks' account, which is victim.
const (
	victim   = 65534
	attacker = 65533
)

func TestMain(m *testing.M) {
	os.Exit(command.Main(m, root, func(dir string) error {
		_ = lab.BuildPMIx(root, dir) // the test that needs it says so
		return lab.BuildStatic(root, dir, "./internal/test/attacks/...")
	}))
}
