package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
)

// standins is the environment in which ranks find stand-ins for libcuda and libnccl, for which the
// memory of a GPU is the host's.
func standins(t *testing.T) []string {
	t.Helper()
	lab.Need(t, "gcc", "cc")
	dir := t.TempDir()
	must.OK(t, ringtest.Standins("../internal/nccl/testdata", dir))
	return []string{"RING_CUDA_LIB=" + filepath.Join(dir, "libcuda.so.1"), "RING_NCCL_LIB=" +
		filepath.Join(dir, "libnccl.so.2"), "STANDIN_DIR=" + t.TempDir()}
}

// Every kind, type and operation on memory of GPUs is right, by NCCL and through the host's, as a
// call and by name.
func TestEveryOnDevices(t *testing.T) {
	env := standins(t)
	program := compile(t, "c", "every.c")
	for _, how := range []string{"nccl", "host"} {
		for _, n := range []string{"1", "3"} {
			t.Run(how+n, func(t *testing.T) {
				allRight(t, int(n[0]-'0'), append(env, "EVERY_DEVICE="+how, "RING_DEVICE="+how), program, n)
			})
		}
	}
}

// Devices' errors have their numbers, and a rank that is killed is named.
func TestDeviceErrors(t *testing.T) {
	for language := range dialects() {
		program := compile(t, language, "device.c")
		t.Run(language, func(t *testing.T) {
			allRight(t, 2, []string{"RING_CUDA_LIB=/nowhere/libcuda.so.1"}, program, "none")
			out, code := ranks(t, 3, standins(t), program)
			check.That(t, code != 0 && strings.Count(out, "all right") == 2, "exit code %d\n%s", code, out)
		})
	}
}
