package main

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The protocol is that of linux/fuse.h, version 7.31: requests are read from the device and answers
// written to it, one at a time.
const (
	opLookup      = 1
	opForget      = 2
	opGetattr     = 3
	opMknod       = 8
	opMkdir       = 9
	opUnlink      = 10
	opRmdir       = 11
	opOpen        = 14
	opRead        = 15
	opWrite       = 16
	opStatfs      = 17
	opRelease     = 18
	opFlush       = 25
	opInit        = 26
	opOpendir     = 27
	opReaddir     = 28
	opReleasedir  = 29
	opInterrupt   = 36
	opDestroy     = 38
	opBatchForget = 42

	inHeader = 40
)

// server shows files as another user's. It numbers them from 1, the root, as they are looked up.
type server struct {
	device int
	owner  uint32
	paths  []string
	silent bool // nothing is answered but the kernel's greeting
	mute   bool // no read is answered
}

// serve answers until the file system is unmounted.
func (s *server) serve() error {
	request := make([]byte, 1<<20)
	for {
		n, err := unix.Read(s.device, request)
		switch {
		case errors.Is(err, unix.ENODEV):
			return nil
		// ENOENT: the request was interrupted
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOENT):
			continue
		case err != nil:
			return err
		}
		order := binary.NativeEndian
		op := order.Uint32(request[4:])
		unique := order.Uint64(request[8:])
		node := order.Uint64(request[16:])
		switch op {
		case opForget, opBatchForget, opInterrupt:
			continue // they have no answer
		}
		if s.silent && op != opInit || s.mute && op == opRead {
			continue
		}
		body, failed := s.answer(op, node, request[inHeader:n])
		var number syscall.Errno
		if failed != nil {
			if body = nil; !errors.As(failed, &number) {
				number = syscall.EIO
			}
		}
		answer := order.AppendUint32(nil, uint32(16+len(body)))
		answer = order.AppendUint32(answer, uint32(-int32(number)))
		answer = append(order.AppendUint64(answer, unique), body...)
		if _, err := unix.Write(s.device, answer); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
}

func (s *server) answer(op uint32, node uint64, args []byte) ([]byte, error) {
	order := binary.NativeEndian
	if op == opInit {
		out := make([]byte, 64)
		order.PutUint32(out[0:], 7)
		order.PutUint32(out[4:], 31)
		order.PutUint32(out[8:], 1<<17)  // most bytes read ahead
		order.PutUint32(out[20:], 1<<17) // most bytes written
		return out, nil
	}
	if node > uint64(len(s.paths)) {
		return nil, syscall.ENOENT
	}
	switch op {
	case opLookup:
		return s.lookup(filepath.Join(s.paths[node-1], strings.TrimRight(string(args), "\x00")))
	case opMknod:
		return s.make(node, args[16:], func(path string) error { return os.WriteFile(path, nil, 0o600) })
	case opMkdir:
		return s.make(node, args[8:], func(path string) error { return os.Mkdir(path, 0o700) })
	case opWrite:
		return s.write(node, int64(order.Uint64(args[8:])), args[40:][:order.Uint32(args[16:])])
	case opUnlink, opRmdir:
		return nil, nil // as if it were done
	case opGetattr:
		attr, err := s.attributes(node)
		return append(make([]byte, 16), attr...), err // valid for no time
	case opOpen, opOpendir:
		return make([]byte, 16), nil
	case opRead:
		return s.read(node, int64(order.Uint64(args[8:])), order.Uint32(args[16:]))
	case opReaddir:
		return s.list(node, int(order.Uint64(args[8:])), order.Uint32(args[16:]))
	case opStatfs:
		return make([]byte, 80), nil
	case opRelease, opReleasedir, opFlush, opDestroy:
		return nil, nil
	}
	return nil, syscall.ENOSYS
}

func (s *server) lookup(path string) ([]byte, error) {
	if _, err := os.Lstat(path); err != nil {
		return nil, err
	}
	node := uint64(slices.Index(s.paths, path) + 1)
	if node == 0 {
		s.paths = append(s.paths, path)
		node = uint64(len(s.paths))
	}
	attr, err := s.attributes(node)
	out := binary.NativeEndian.AppendUint64(nil, node)
	return append(append(out, make([]byte, 32)...), attr...), err
}

// make makes a file or directory with a name, which ends with a zero, in a directory.
func (s *server) make(node uint64, name []byte, do func(path string) error) ([]byte, error) {
	path := filepath.Join(s.paths[node-1], strings.TrimRight(string(name), "\x00"))
	if err := do(path); err != nil {
		return nil, err
	}
	return s.lookup(path)
}

// write returns the struct fuse_write_out.
func (s *server) write(node uint64, offset int64, data []byte) ([]byte, error) {
	file, err := os.OpenFile(s.paths[node-1], os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	n, err := file.WriteAt(data, offset)
	return binary.NativeEndian.AppendUint64(nil, uint64(n)), err
}

// attributes returns the struct fuse_attr of a file.
func (s *server) attributes(node uint64) ([]byte, error) {
	var stat unix.Stat_t
	if err := unix.Stat(s.paths[node-1], &stat); err != nil {
		return nil, err
	}
	mode := uint32(syscall.S_IFREG | 0o500)
	if stat.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		mode = syscall.S_IFDIR | 0o700
	}
	order := binary.NativeEndian
	var out []byte
	for _, v := range []uint64{stat.Ino, uint64(stat.Size), uint64(stat.Blocks), uint64(stat.Atim.Sec),
		uint64(stat.Mtim.Sec), uint64(stat.Ctim.Sec)} {
		out = order.AppendUint64(out, v)
	}
	for _, v := range []uint32{uint32(stat.Atim.Nsec), uint32(stat.Mtim.Nsec), uint32(stat.Ctim.Nsec), mode, 1, s.owner,
		s.owner, 0, 4096, 0} {
		out = order.AppendUint32(out, v)
	}
	return out, nil
}

func (s *server) read(node uint64, offset int64, size uint32) ([]byte, error) {
	file, err := os.Open(s.paths[node-1])
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data := make([]byte, size)
	n, err := file.ReadAt(data, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}

// list returns the entries of a directory from an offset, which counts entries.
func (s *server) list(node uint64, offset int, size uint32) (out []byte, err error) {
	entries, err := os.ReadDir(s.paths[node-1])
	if err != nil {
		return nil, err
	}
	order := binary.NativeEndian
	for i := offset; i < len(entries); i++ {
		name := entries[i].Name()
		entry := order.AppendUint64(nil, uint64(i+2)) // any number but 0
		entry = order.AppendUint64(entry, uint64(i+1))
		entry = order.AppendUint32(entry, uint32(len(name)))
		entry = append(order.AppendUint32(entry, 0), name...)
		for len(entry)%8 != 0 {
			entry = append(entry, 0)
		}
		if len(out)+len(entry) > int(size) {
			break
		}
		out = append(out, entry...)
	}
	return out, nil
}
