package python

import (
	"os/exec"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
)

// Each operation, on each type and kind of shape, does what plain NumPy makes of all ranks' arrays.
func TestNumpyOperations(t *testing.T) {
	needs(t, "numpy")
	program(t, "4", "numpy_ops.py")
}

// Importing the package loads neither the frameworks nor the library.
func TestImportIsLight(t *testing.T) {
	const check = "import gorun, sys\nassert gorun.__version__ and issubclass(gorun.PeerError, gorun.GorunError)\n" +
		"assert not {'torch', 'numpy', 'ctypes'} & set(sys.modules), sys.modules"
	must.Run(t, exec.Command(interpreter, "-c", check))
}
