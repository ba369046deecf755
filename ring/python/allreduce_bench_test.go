package python

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// rounds is how often each library has its turn: other work on the machine disturbs all alike.
const rounds = 3

// BenchmarkTorchAllreduce compares gorun.torch with torch.distributed's gloo and, where it is
// built, Horovod, on two ranks of this machine in turns. It reports the median of each library's
// medians.
func BenchmarkTorchAllreduce(b *testing.B) {
	needs(b, "torch", "numpy")
	kinds := []string{"torch", "gloo"}
	var horovod []string
	if variable, err := lab.UnpackHorovod(b.Context(), b.TempDir()); err != nil {
		b.Log(err)
	} else {
		kinds = append(kinds, "horovod")
		horovod = []string{"-x", variable}
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
				out := strings.Join(succeed(b, nil,
					append(args, interpreter, script(b, "bench_allreduce.py"), kind)...), "\n")
				for _, m := range line.FindAllStringSubmatch(out, -1) {
					us := must.Get(strconv.ParseFloat(m[4], 64))(b)
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
