package agent

import (
	"fmt"
	"hash/fnv"
	"os"

	"golang.org/x/sys/unix"
)

// libraryFD is the number that Open MPI's library has in a rank: the first after its PMI socket.
const libraryFD = rankFD + 1

// openMPI4 is what programs of Open MPI up to 4.1 need beside PMI-1: a library that speaks it for them, which is a file in memory
// that ranks inherit, and a folder for the memory that they share, which they leave behind when they are killed.
type openMPI4 struct {
	library *os.File
	folder  string
}

func newOpenMPI4(library []byte) (*openMPI4, error) {
	fd, err := unix.MemfdCreate("gorun-ompi4.so", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory for Open MPI's library: %w", err)
	}
	o := &openMPI4{library: os.NewFile(uintptr(fd), "gorun-ompi4.so")}
	if _, err := o.library.Write(library); err != nil {
		o.close()
		return nil, fmt.Errorf("write Open MPI's library: %w", err)
	}
	for _, parent := range []string{"/dev/shm", os.TempDir()} {
		if o.folder, err = os.MkdirTemp(parent, "gorun-ompi4-"); err == nil {
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

// numberOf is a job's number for Open MPI: two halves of 16 bits each, of which neither may be negative (communicators could not
// be split then).
func numberOf(job string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(job))
	return h.Sum32()&0x7fff7fff | 1
}
