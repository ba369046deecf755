// Package nvml lists GPUs through the NVIDIA driver's management library. It
// needs cgo, and a faulty driver can crash
// the process. So only the small gorun-gpu program uses it,
// and gorun itself stays a static binary.
//
// The library's symbols are looked up at the first call. If the C compiler
// binds symbols at start by default (-z now), programs built on this package need
// CGO_LDFLAGS=-Wl,-z,lazy, which the Makefile sets.
package nvml
