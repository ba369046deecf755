package dialect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

// A default hostfile says where the user's program runs, so nobody else may be able to change it.
func TestDefaultHostfileOfOthersIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hostfile")
	if exists, err := usesDefault(file, "--hostfile"); exists || err != nil {
		t.Errorf("without a file: %v, %v", exists, err)
	}
	must.OK(t, os.WriteFile(file, nil, 0o644))
	if exists, err := usesDefault(file, "--hostfile"); !exists || err != nil {
		t.Errorf("with a file of the user's: %v, %v", exists, err)
	}
	must.OK(t, os.Chmod(filepath.Dir(file), 0o777))
	if exists, err := usesDefault(file, "--hostfile"); exists || err == nil ||
		!strings.Contains(err.Error(), "others can change ") || usage.Hint(err) == "" {
		t.Errorf("with one that others can change: %v, %v", exists, err)
	}
}
