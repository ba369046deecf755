package lab

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Fenced returns whole pages of at least n bytes between two pages that nobody may touch, until the
// test ends.
func Fenced(t testing.TB, n int) []byte {
	t.Helper()
	page := unix.Getpagesize()
	length := (n + page - 1) / page * page
	all, err := unix.Mmap(-1, 0, length+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(all) })
	for _, fence := range [][]byte{all[:page], all[page+length:]} {
		if err := unix.Mprotect(fence, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return all[page : page+length]
}
