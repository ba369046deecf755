// Package files makes files for tests.
package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gorun/gorun/internal/test/must"
)

// Make makes files below a new directory, which it returns. A text that begins with + is
// executable.
func Make(t testing.TB, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		mode := os.FileMode(0o644)
		text, executable := strings.CutPrefix(text, "+")
		if executable {
			mode = 0o755
		}
		must.OK(t, os.WriteFile(path, []byte(text), mode))
	}
	return dir
}

// GPUs returns what NVIDIA's driver shows of a host with a GPU on each of the NUMA nodes.
func GPUs(nodes ...int) fstest.MapFS {
	root := fstest.MapFS{}
	for i, node := range nodes {
		id := fmt.Sprintf("0000:%02x:00.0", 16*i+7)
		root["proc/driver/nvidia/gpus/"+id+"/information"] = &fstest.MapFile{Data: fmt.Appendf(nil,
			"Model: \t\t NVIDIA A100-SXM4-40GB\nGPU UUID: \t GPU-%d\nBus Location: \t %s\nDevice Minor: \t %d\nGPU "+
				"Excluded:\t No\n", i, id, i)}
		root["sys/bus/pci/devices/"+id+"/numa_node"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d\n", node)}
	}
	return root
}
