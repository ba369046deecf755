package shm

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/host/process"
)

const (
	memfdName   = "gorun-ring"
	recordLimit = 1 << 10 // bytes of an offer
	noShrink    = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
)

// offer identifies memory to the other ranks.
type offer struct {
	Boot  string // boot id of the kernel: the other numbers are valid within it
	PID   int    // number in /proc
	FD    int
	Nonce []byte // also at the start of the memory
}

// memory is a mapped memfd.
type memory struct {
	bytes []byte
	file  *os.File // open until all ranks that want it have it
}

// makeMemory makes and maps size bytes, and returns the offer of them. The caller closes
// the file and unmaps the bytes.
func makeMemory(size int) (memory, []byte, error) {
	fd, err := unix.MemfdCreate(memfdName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return memory{}, nil, fmt.Errorf("make shared memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "memfd:"+memfdName)
	err = unix.Ftruncate(fd, int64(size))
	if err == nil {
		// Reserved now: memory that is missing later would be a SIGBUS.
		err = unix.Fallocate(fd, 0, 0, int64(size))
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, noShrink|unix.F_SEAL_SEAL)
	}
	m := memory{file: file}
	if err == nil {
		m.bytes, err = mapMemory(fd, size)
	}
	if err != nil {
		file.Close()
		return memory{}, nil, fmt.Errorf("make %d bytes of shared memory: %w", size, err)
	}
	rand.Read(m.bytes[:nonceSize])
	text, err := json.Marshal(offer{bootID(), procPID(), fd, m.bytes[:nonceSize]})
	return m, text, err
}

// openMemory maps the size bytes that text offers. Text is untrusted: the memory must hold
// the nonce, and be sealed so that no rank can shrink it.
func openMemory(text []byte, size int) ([]byte, error) {
	o, err := parseOffer(text)
	if err != nil {
		return nil, err
	}
	if o.Boot != bootID() {
		return nil, errors.New("the memory offered is another machine's")
	}
	owner, err := process.Open(o.PID)
	if err != nil {
		return nil, err
	}
	defer owner.Close()
	number := strconv.Itoa(o.FD)
	if !strings.HasPrefix(owner.Link("fd/"+number), "/memfd:"+memfdName) {
		return nil, errors.New("another process has that number here")
	}
	file, err := owner.Memory(number, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	fd := int(file.Fd())
	if err := lasting(fd, size); err != nil {
		return nil, err
	}
	m, err := mapMemory(fd, size)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", file.Name(), err)
	}
	if !bytes.Equal(m[:nonceSize], o.Nonce) {
		_ = unix.Munmap(m)
		return nil, errors.New("the memory found is another's")
	}
	return m, nil
}

func parseOffer(text []byte) (offer, error) {
	var o offer
	if len(text) > recordLimit {
		return o, fmt.Errorf("an offer of shared memory of %d bytes", len(text))
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return o, fmt.Errorf("no offer of shared memory: %w", err)
	}
	if o.Boot == "" || o.PID <= 0 || o.FD < 0 || len(o.Nonce) != nonceSize {
		return o, errors.New("an offer of shared memory lacks a part")
	}
	return o, nil
}

// lasting fails unless the file is size bytes of allocated memory that cannot shrink:
// access to missing memory would raise SIGBUS.
func lasting(fd, size int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("look at the seals of shared memory: %w", err)
	}
	if stat.Size != int64(size) || stat.Blocks*512 < int64(size) || seals&noShrink != noShrink {
		return errors.New("the memory found has another size, or may lose it")
	}
	return nil
}

func mapMemory(fd, size int) ([]byte, error) {
	m, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	// A forked child has no use for it, would keep it from being freed, and could write in it.
	if err := unix.Madvise(m, unix.MADV_DONTFORK); err != nil {
		_ = unix.Munmap(m)
		return nil, err
	}
	// Fewer page-table misses where the kernel gives huge pages for this; it is as well without.
	_ = unix.Madvise(m, unix.MADV_HUGEPAGE)
	return m, nil
}

// bootID names the running kernel, or is empty.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// procPID returns this process's number in /proc, which may be mounted for another
// process namespace than this one.
func procPID() int {
	if name, err := os.Readlink("/proc/self"); err == nil {
		if pid, err := strconv.Atoi(name); err == nil {
			return pid
		}
	}
	return os.Getpid()
}
