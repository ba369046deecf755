//go:build cgo && linux

package nccl_test

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring/internal/nccl"
)

func TestMain(m *testing.M) {
	lab.Play(map[string]func(string) error{"real": real, "old": old})
	os.Exit(m.Run())
}

// child plays a role in a process of its own, and returns what it printed.
func child(t *testing.T, role string, env ...string) string {
	t.Helper()
	p := lab.StartRole(t, exec.Command(os.Args[0]), role, env...)
	var out strings.Builder
	for line, err := p.Line(); err == nil; line, err = p.Line() {
		out.WriteString(line + "\n")
	}
	must.OK(t, p.Wait(), out.String())
	return out.String()
}

// realLibrary is where .ci/nccl puts the library of the wheel.
func realLibrary(t *testing.T) string {
	t.Helper()
	name, found := lab.Kept("nccl-*/libnccl.so.2")
	if !found {
		lab.Skip(t, "needs libnccl.so.2, which .ci/nccl fetches")
	}
	return name
}

// NVIDIA's own library, as it is: all functions are there, and without a driver each call is an
// error.
func TestRealLibrary(t *testing.T) {
	path := realLibrary(t)
	out := child(t, "real", "RING_NCCL_LIB="+path)
	for _, want := range []string{"found NCCL 2.", " (" + path + ")", "scales true", "init: NCCL 2."} {
		check.That(t, strings.Contains(out, want), "no %q in\n%s", want, out)
	}
}

// Also what this version has and others may lack.
func TestRealLibraryHasAll(t *testing.T) {
	names := regexp.MustCompile(`X\([01], (nccl\w+),`).FindAllStringSubmatch(text(t, "shim.h"), -1)
	must.That(t, len(names) >= 20, "found %d names in shim.h", len(names))
	f := must.Get(elf.Open(realLibrary(t)))(t)
	defer f.Close()
	symbols := must.Get(f.DynamicSymbols())(t)
	has := map[string]bool{}
	for _, s := range symbols {
		has[s.Name] = s.Section != elf.SHN_UNDEF
	}
	for _, name := range names {
		check.That(t, has[name[1]], "%s is not in the library", name[1])
	}
}

func text(t *testing.T, name string) string {
	t.Helper()
	b := must.Get(os.ReadFile(name))(t)
	return string(b)
}

func real(string) error {
	l, err := nccl.Find(os.LookupEnv)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println("found", l, "scales", l.CanScale())
	id, err := l.UniqueID()
	fmt.Println("id:", err) // whether it wants a driver for that differs between versions
	c, err := l.Init(nil, 1, id, 0)
	for deadline := time.Now().Add(20 * time.Second); err == nil; {
		r := c.State()
		if r == nccl.Success || time.Now().After(deadline) {
			return fmt.Errorf("a communicator without a driver is %v", r)
		}
		if r != nccl.InProgress {
			err = c.Fault("init", r)
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Println("init:", err)
	if c != nil {
		fmt.Println("abort:", c.Abort())
	}
	return nil
}

// An NCCL from before non-blocking communicators, scales and finalization, on the stand-in.
func TestOldLibrary(t *testing.T) {
	must.HaveTime(t)
	lab.Need(t, "cc")
	dir := t.TempDir()
	must.OK(t, ringtest.Standins("testdata", dir, "-DSTANDIN_VERSION=21005"))
	out := child(t, "old", "RING_NCCL_LIB="+filepath.Join(dir, "libnccl.so.2"), "RING_CUDA_LIB="+
		filepath.Join(dir, "libcuda.so.1"), "STANDIN_DIR="+dir)
	want := "found NCCL 2.10.5 (" + dir + "/libnccl.so.2) scales false\n"
	check.Equal(t, out, want, "got")
}

func old(string) error {
	l, err := nccl.Find(os.LookupEnv)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println("found", l, "scales", l.CanScale())
	g, err := nccl.OpenGPU(os.LookupEnv, 0)
	if err != nil {
		return err
	}
	if _, err := nccl.OpenGPU(os.LookupEnv, 8); err == nil ||
		!strings.Contains(err.Error(), "GPU 8: open it: CUDA_ERROR_INVALID_DEVICE: this process may see 8") {
		return fmt.Errorf("a GPU that is not there: %w", err)
	}
	id, err := l.UniqueID()
	if err != nil {
		return err
	}
	c, err := l.Init(g, 1, id, 0)
	if err != nil {
		return err
	}
	if r := c.State(); r != nccl.Success {
		return c.Fault("init", r)
	}
	if r := c.Finalize(); r != nccl.Success {
		return c.Fault("finalize", r)
	}
	if err := c.Destroy(); err != nil {
		return err
	}
	return g.Close()
}

// Where it is found is one thing, whether it can be loaded another.
func TestBrokenLibraries(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "libnccl.so.2")
	must.OK(t, os.WriteFile(broken, []byte("no library"), 0o600))
	lookup := func(name, value string) func(string) (string, bool) {
		return func(asked string) (string, bool) {
			if asked != name {
				return "", false
			}
			return value, true
		}
	}
	check.Error(nccl.Find(lookup("RING_NCCL_LIB", broken))).Says(t, "load "+broken+": ", "a broken file")
	check.Error(nccl.Find(lookup("RING_NCCL_LIB", "libc.so.6"))).Says(t, "has no ncclGetVersion", "another library")
	venv := t.TempDir()
	packages := filepath.Join(venv, "lib/python3.9/site-packages/nvidia/nccl/lib")
	must.OK(t, os.MkdirAll(packages, 0o755))
	must.OK(t, os.Rename(broken, filepath.Join(packages, "libnccl.so.2")))
	check.Error(nccl.Find(lookup("VIRTUAL_ENV", venv))).Says(t, "load "+packages, "a broken wheel")
	check.Error(nccl.OpenGPU(lookup("RING_CUDA_LIB", "libc.so.6"), 0)).Says(t,
		"the NVIDIA driver libc.so.6 has no cuInit", "another library as the driver")
}
