//go:build cgo && linux

package nccl

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"
)

// driver is libcuda.
type driver struct {
	path  string
	table *C.ring_cuda
}

// Library is libnccl.
type Library struct {
	Path    string
	Version int
	table   *C.ring_nccl
}

func (l *Library) String() string { return fmt.Sprintf("NCCL %s (%s)", version(l.Version), l.Path) }

// load loads a library. It is never unloaded: both have threads, and state in the driver, that
// outlive their use.
func load(path string, loaded bool) (unsafe.Pointer, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var why [512]C.char
	library := C.ring_load(name, flag(loaded), &why[0], C.size_t(len(why)))
	if library == nil {
		return nil, fmt.Errorf("load %s: %s", path, C.GoString(&why[0]))
	}
	return library, nil
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// loadDriver loads libcuda, from RING_CUDA_LIB if that is set.
func loadDriver(lookup func(string) (string, bool)) (*driver, error) {
	path, _ := lookup("RING_CUDA_LIB")
	if path == "" {
		path = "libcuda.so.1"
	}
	library, err := load(path, false)
	if err != nil {
		return nil, fmt.Errorf("no NVIDIA driver: %w", err)
	}
	var missing *C.char
	d := &driver{path: path, table: C.ring_cuda_table(library, &missing)}
	if missing != nil {
		d.free()
		return nil, fmt.Errorf("the NVIDIA driver %s has no %s: it is too old", path, C.GoString(missing))
	}
	return d, nil
}

func (d *driver) free() { C.free(unsafe.Pointer(d.table)) }

// Find loads NCCL from the first place that has it.
func Find(lookup func(string) (string, bool)) (*Library, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		maps = nil // then no library counts as loaded
	}
	var last error
	for _, c := range candidates(lookup, string(maps), filepath.Glob) {
		library, err := load(c.path, c.loaded)
		switch {
		case err == nil:
			return bind(library, c.path)
		case c.must || strings.Contains(c.path, "/"):
			return nil, err // it exists, but cannot be loaded
		}
		last = err
	}
	return nil, fmt.Errorf("NCCL was not found (%w): install it, or PyTorch for CUDA, or set RING_NCCL_LIB to the "+
		"path of %s", last, soname)
}

func bind(library unsafe.Pointer, path string) (*Library, error) {
	var missing *C.char
	l := &Library{Path: path, table: C.ring_nccl_table(library, &missing)}
	var full [4096]C.char
	if C.ring_library_path(unsafe.Pointer(l.table.ncclGetVersion), &full[0], C.size_t(len(full))) != 0 {
		l.Path = C.GoString(&full[0])
	}
	if l.table.ncclGetVersion != nil {
		var code C.int
		if r := Result(C.ring_nccl_version(l.table, &code)); r == Success {
			l.Version = int(code)
		}
	}
	if missing != nil {
		err := fmt.Errorf("%v has no %s: another version is needed", l, C.GoString(missing))
		l.Close()
		return nil, err
	}
	return l, nil
}

// Close invalidates l. The library stays loaded.
func (l *Library) Close() {
	C.free(unsafe.Pointer(l.table))
	l.table = nil
}

// CanScale reports whether steps may be scaled.
func (l *Library) CanScale() bool {
	return l.table.ncclRedOpCreatePreMulSum != nil && l.table.ncclRedOpDestroy != nil
}

// UniqueID returns an id by which the ranks of a new communicator find each other. The process that
// made it must live until all of them have.
func (l *Library) UniqueID() (id [IDSize]byte, err error) {
	var unique C.ring_nccl_id
	runtime.LockOSThread() // NCCL keeps its last error for each thread
	defer runtime.UnlockOSThread()
	if r := Result(C.ring_nccl_unique_id(l.table, &unique)); r != Success {
		return id, l.fault("make an id", r, 0, l.lastError(0))
	}
	copy(id[:], C.GoBytes(unsafe.Pointer(&unique), IDSize))
	return id, nil
}

// lastError returns NCCL's description of the last error of this thread, or "". Comm may be 0.
func (l *Library) lastError(comm C.uintptr_t) string {
	var text [512]C.char
	C.ring_nccl_last_error(l.table, comm, &text[0], C.size_t(len(text)))
	return strings.TrimSpace(C.GoString(&text[0]))
}

// fault returns a result as an error. Last is NCCL's description, or "".
func (l *Library) fault(doing string, r Result, cuda C.int, last string) error {
	switch {
	case cuda != 0:
		return fmt.Errorf("%v: %s: CUDA error %d", l, doing, int(cuda))
	case last != "":
		return fmt.Errorf("%v: %s: %v: %s", l, doing, r, last)
	}
	return fmt.Errorf("%v: %s: %v", l, doing, r)
}
