package launcher

import (
	"testing"
)

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 MiB", 1 << 19: "0.5 MiB", 64 << 20: "64 MiB", 12_900_000: "12.3 MiB", 1023 << 20: "1023 MiB",
		2 << 30: "2 GiB", 1_640_000_000: "1.53 GiB", 100 << 30: "100 GiB", 1200 << 30: "1200 GiB"} {
		if got := Size(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestDescribeSaysThatMemoryRanOut(t *testing.T) {
	for want, e := range map[string]Exit{
		"was killed by signal 9 (SIGKILL): the host ran out of memory":                     {Signal: 9, OutOfMemory: MemoryOfHost},
		"was killed by signal 9 (SIGKILL): its cgroup's memory limit of 2 GiB was reached": {Signal: 9, OutOfMemory: MemoryOfGroup, MemoryLimit: 2 << 30},
		"exited with code 137: the host ran out of memory, it seems":                       {Code: 137, OutOfMemory: MemoryLikely},
		"exited with code 137": {Code: 137},
	} {
		if got := describe(e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
