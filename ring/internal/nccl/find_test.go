package nccl

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestCandidates(t *testing.T) {
	const maps = `7f00-7f01 r-xp 00000000 08:01 12 /opt/my env/lib/python3.12/site-packages/torch/lib/libtorch.so
7f01-7f02 rw-p 00000000 00:00 0 [heap]
7f02-7f03 r-xp 00000000 08:01 13 /opt/my env/lib/python3.12/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12
7f03-7f04 r-xp 00000000 08:01 14 /usr/lib/x86_64-linux-gnu/libc.so.6
7f04-7f05 r-xp 00000000 08:01 15 /usr/lib/python3/dist-packages/numpy/core.so
`
	there := []string{
		"/opt/my env/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2",
		"/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2",
		"/home/u/.local/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2",
		"/usr/lib/python3/dist-packages/nvidia/nccl/lib/libnccl.so.2",
	}
	glob := func(pattern string) (found []string, err error) {
		for _, path := range there {
			ok, err := filepath.Match(pattern, path)
			if err != nil {
				return nil, err
			}
			if ok {
				found = append(found, path)
			}
		}
		return found, nil
	}
	environ := map[string]string{"VIRTUAL_ENV": "/venv", "HOME": "/home/u", "CONDA_PREFIX": "/bad["}
	lookup := func(name string) (string, bool) { v, ok := environ[name]; return v, ok }

	want := []candidate{{path: soname, loaded: true}, {path: there[0]}, {path: there[3]}, {path: there[1]},
		{path: there[2]}, {path: soname}}
	got := candidates(lookup, maps, glob)
	check.That(t, slices.Equal(got, want), "got  %v\nwant %v", got, want)
	environ["RING_NCCL_LIB"] = "/mine.so"
	if got := candidates(lookup, maps, glob); !slices.Equal(got, []candidate{{path: "/mine.so", must: true}}) {
		t.Errorf("got %v where the user says where", got)
	}
}

func TestVersion(t *testing.T) {
	for code, want := range map[int]string{2708: "2.7.8", 21005: "2.10.5", 22703: "2.27.3", 23203: "2.32.3"} {
		check.Equal(t, version(code), want, "version of", code)
	}
}
