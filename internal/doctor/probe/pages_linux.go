package probe

import "golang.org/x/sys/unix"

// inLargePages asks the kernel for large pages. It is a hint: without them the first writes take
// longer.
func inLargePages(memory []byte) { _ = unix.Madvise(memory, unix.MADV_HUGEPAGE) }
