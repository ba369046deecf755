//go:build cgo

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// TestDrivers has the real gorun-gpu load libraries that are not well. Calling what a library lacks
// would end it with "symbol lookup error".
func TestDrivers(t *testing.T) {
	must.HaveTime(t)
	lab.Need(t, "cc")
	dir := driver(t)
	for name, tt := range map[string]struct{ how, warning string }{
		"old":     {"well", ""},
		"crashes": {"crash", "SIGSEGV"},
		"aborts":  {"abort", "SIGABRT"},
		"hangs":   {"hang", "did not end within 5s"},
		"none":    {"", "no NVIDIA driver: libnvidia-ml.so.1 cannot be loaded"},
	} {
		t.Run(name, func(t *testing.T) {
			libraries := dir
			if tt.how == "" {
				libraries = t.TempDir()
			}
			helper := filepath.Join(t.TempDir(), "helper")
			script := "#!/bin/sh\nLD_LIBRARY_PATH=" + libraries + " GORUN_TEST_DRIVER=" + tt.how + " exec " + dir +
				"/gorun-gpu\n"
			must.OK(t, os.WriteFile(helper, []byte(script), 0o700))
			t.Parallel() // from here on: a fork beside the write would hold the script open, so nobody could run it
			began := time.Now()
			got, err := gpu.Details(t.Context(), gpu.Sources{Root: fstest.MapFS{
				"proc/driver/nvidia/gpus/0000:10:00.0/information": {Data: []byte("Model: K80\nDevice Minor: 0\n")},
				"proc/driver/nvidia/gpus/0000:20:00.0/information": {Data: []byte("Model: K80\nDevice Minor: 1\n")},
			}, Helper: helper})
			if took := time.Since(began); took > 20*time.Second { // the goal is 5 s
				t.Errorf("it took %v", took)
			}
			all := strings.Join(got.Warnings, "\n")
			must.That(t, err == nil && (all == "") == (tt.warning == "") && strings.Contains(all, tt.warning) &&
				len(got.Devices) == 2, "%+v, %v", got, err)
			want := gpu.Device{
				Index:       1,
				Minor:       1,
				BusID:       "0000:20:00.0",
				Name:        "K80",
				NUMANode:    -1,
				Utilization: -1,
			}
			if tt.warning == "" {
				want.Name = "Tesla K80"
				want.UUID = "GPU-2"
				want.MemoryBytes = 12 << 30
				want.MemoryUsed = 1 << 30
			}
			check.That(t, reflect.DeepEqual(got.Devices[1], want), "%+v\nwant %+v", got.Devices[1], want)
		})
	}
}

// driver is a folder with the library and a gorun-gpu.
func driver(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	build(t, "cc", "-std=gnu11", "-Wall", "-shared", "-fPIC", "-o", filepath.Join(dir, "libnvidia-ml.so.1"),
		"testdata/libnvidia-ml.c")
	build(t, "go", "build", "-ldflags", "-extldflags=-Wl,-z,lazy", "-o", filepath.Join(dir, "gorun-gpu"), ".")
	return dir
}

// BenchmarkInventory is that of a host with 8 GPUs, with the start of gorun-gpu: the goal is 100
// ms.
func BenchmarkInventory(b *testing.B) {
	dir := driver(b)
	b.Setenv("LD_LIBRARY_PATH", dir)
	b.Setenv("GORUN_TEST_GPUS", "8")
	root := fstest.MapFS{"dev/nvidiactl": {}}
	for b.Loop() {
		inv, err := gpu.Details(b.Context(), gpu.Sources{Root: root, Helper: filepath.Join(dir, "gorun-gpu")})
		must.That(b, err == nil && len(inv.Devices) == 8, "%+v, %v", inv, err)
	}
}

func build(t testing.TB, argv ...string) {
	t.Helper()
	must.Run(t, exec.Command(argv[0], argv[1:]...))
}
