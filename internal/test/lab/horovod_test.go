package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

// The reason of a skip names what is missing and who brings it.
func TestMissingFilesOfHorovodAreNamed(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	const path = "test/integration/elastic_common.py"
	_, err := FetchedHorovodSource(path)
	check.That(t, err != nil && strings.Contains(err.Error(), path) &&
		strings.Contains(err.Error(), ".ci/horovod fetches it"), "a file: %v", err)
	check.Error(builtHorovod()).Says(t, ".ci/horovod builds it", "the wheel")
	want := filepath.Join(cache, "gorun-ci/torch-2.1/horovod-0.28.1", path)
	if err := os.MkdirAll(filepath.Dir(want), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(want, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := FetchedHorovodSource(path)
	check.That(t, got == want && err == nil, "%q, %v", got, err)
}
