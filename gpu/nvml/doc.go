// Package nvml lists GPUs through the NVIDIA driver's management library. It is
// the one part of gorun that needs cgo, and a driver that misbehaves can take
// the whole process down with it; so only the small gorun-gpu program uses it,
// and gorun itself stays a static binary.
//
// The library's symbols are looked up at the first call. Where the C compiler
// links for binding them at start (-z now), programs built on this package need
// CGO_LDFLAGS=-Wl,-z,lazy, which the Makefile sets.
package nvml
