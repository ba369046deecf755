package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
)

// root is the repository.
var root = func() string {
	dir, err := filepath.Abs("../../..")
	if err != nil {
		panic(err)
	}
	return dir
}()

// testdata returns the path of a file in testdata.
func testdata(name string) string { return root + "/internal/test/e2e/testdata/" + name }

func TestMain(m *testing.M) {
	os.Exit(command.Main(m, root, func(dir string) error {
		return errors.Join(lab.BuildStatic(root, dir+"/container", "./internal/test/e2e/testdata/container/..."),
			lab.BuildStatic(root, dir, "./internal/test/e2e/wedge"))
	}))
}

// step is a line of --json-events, as far as the tests read it.
type step struct {
	Event  string
	Time   time.Time
	Rank   *int
	Code   *int
	CPU    float64 `json:"cpu_seconds"`
	MaxRSS int64   `json:"max_rss"`
	Error  string
	Kind   string
	Epoch  int
	Text   string
	Log    string
}
