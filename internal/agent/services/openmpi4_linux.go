package services

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/contain"
)

// libraryFD is the number of Open MPI's library in a rank: the first after its PMI socket.
const libraryFD = FirstFD + 1

// openMPI4 is what programs of Open MPI up to 4.1 need beside PMI-1: a library that speaks PMI-1, in a file in memory that ranks inherit,
// and a folder for their shared memory, which they leave behind when they are killed.
type openMPI4 struct {
	library *os.File
	folder  string
}

// newOpenMPI4 makes both. The folder's name has the guard.
func newOpenMPI4(library []byte, guard contain.Guard) (*openMPI4, error) {
	fd, err := unix.MemfdCreate("gorun-ompi4.so", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory for Open MPI's library: %w", err)
	}
	o := &openMPI4{library: os.NewFile(uintptr(fd), "gorun-ompi4.so")}
	if _, err := o.library.Write(library); err != nil {
		o.close()
		return nil, fmt.Errorf("write Open MPI's library: %w", err)
	}
	for _, parent := range openMPI4Parents() {
		if o.folder, err = os.MkdirTemp(parent, openMPI4Prefix(guard)); err == nil {
			return o, nil
		}
	}
	o.close()
	return nil, fmt.Errorf("make a folder for Open MPI: %w", err)
}

func (o *openMPI4) close() {
	if o == nil {
		return
	}
	o.library.Close()
	if o.folder != "" {
		_ = os.RemoveAll(o.folder)
	}
}

func openMPI4Parents() []string { return []string{"/dev/shm", os.TempDir()} }

// openMPI4Prefix differs by guard and is short, as Open MPI makes long names below it.
func openMPI4Prefix(guard contain.Guard) string {
	h := fnv.New32a()
	h.Write([]byte(guard.String()))
	return fmt.Sprintf("gorun-ompi4-%08x-", h.Sum32())
}

// RemoveOpenMPI4 removes the folder that a guard's agent has left because it was killed.
func RemoveOpenMPI4(guard contain.Guard) {
	for _, parent := range openMPI4Parents() {
		left, _ := filepath.Glob(filepath.Join(parent, openMPI4Prefix(guard)+"*")) // the pattern is valid
		for _, folder := range left {
			_ = os.RemoveAll(folder)
		}
	}
}

// numberOf is a job's number for Open MPI: two halves of 16 bits each, neither of which may be negative: communicators could not
// be split.
func numberOf(job string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(job))
	return h.Sum32()&0x7fff7fff | 1
}
