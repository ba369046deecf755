package ringtest

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// Standins compiles the stand-ins for libcuda and libnccl into a folder, with the C compiler's
// flags given. Sources is the folder ring/internal/nccl/testdata. A process loads those of one
// folder only: the second finds the first by its name.
func Standins(sources, dir string, flags ...string) error {
	for _, args := range [][]string{
		{"-Wl,-soname,libcuda.so.1", "-o", filepath.Join(dir, "libcuda.so.1"), filepath.Join(sources, "cuda.c"),
			"-lpthread"},
		{"-Wl,-soname,libnccl.so.2", "-o", filepath.Join(dir, "libnccl.so.2"), filepath.Join(sources, "nccl.c"),
			"-L" + dir, "-l:libcuda.so.1", "-Wl,-rpath,$ORIGIN"},
	} {
		all := append(append([]string{"-O1", "-g", "-shared", "-fPIC", "-w"}, flags...), args...)
		if out, err := exec.Command("cc", all...).CombinedOutput(); err != nil {
			return fmt.Errorf("cc %q: %w\n%s", all, err, out)
		}
	}
	return nil
}
