package python

import (
	"archive/zip"
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rounds is how often each library has its turn: other work on the machine disturbs all alike.
const rounds = 3

// BenchmarkTorchAllreduce compares gorun.torch with torch.distributed's gloo and, where it is built, Horovod, on two ranks of
// this machine in turns. It reports the median of each library's medians.
func BenchmarkTorchAllreduce(b *testing.B) {
	needs(b, "torch", "numpy")
	kinds := []string{"torch", "gloo"}
	var horovod []string
	if dir := unpackedHorovod(b); dir != "" {
		kinds = append(kinds, "horovod")
		horovod = []string{"-x", "PYTHONPATH=" + dir}
	}
	line := regexp.MustCompile(`(\w+) (in place|new) (\d+) bytes ([0-9.]+) us`)
	for b.Loop() {
		times := map[string][]float64{}
		for range rounds {
			for _, kind := range kinds {
				args := []string{"-np", "2"}
				if kind == "horovod" {
					args = append(args, horovod...)
				}
				out := strings.Join(succeed(b, nil, append(args, interpreter, script(b, "bench_allreduce.py"), kind)...), "\n")
				for _, m := range line.FindAllStringSubmatch(out, -1) {
					us, err := strconv.ParseFloat(m[4], 64)
					if err != nil {
						b.Fatal(err)
					}
					name := m[1] + "-" + strings.ReplaceAll(m[2], " ", "-") + "-" + m[3]
					times[name] = append(times[name], us)
				}
			}
		}
		for name, all := range times {
			slices.Sort(all)
			b.ReportMetric(all[len(all)/2], name+"-us")
		}
	}
}

// unpackedHorovod is a folder with the Horovod that .ci/horovod has built, or empty.
func unpackedHorovod(b *testing.B) string {
	home, _ := os.UserHomeDir()
	wheels, _ := filepath.Glob(filepath.Join(cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(home, ".cache")), "gorun-ci/torch-*/horovod-0.28.1-*.whl"))
	if len(wheels) == 0 {
		b.Log("Horovod is not built: .ci/horovod does it, in many minutes")
		return ""
	}
	dir := b.TempDir()
	wheel, err := zip.OpenReader(wheels[0])
	if err != nil {
		b.Fatal(err)
	}
	defer wheel.Close()
	if err := os.CopyFS(dir, wheel); err != nil {
		b.Fatal(err)
	}
	return dir
}
