// Package nccl calls NVIDIA's driver (libcuda) and NCCL (libnccl), which it loads at run time. It
// is built without their headers; shim.h declares the used part. Without cgo, loading fails and
// nothing else is called.
//
// Each call sets the GPU's context in the same crossing into C, so that any thread may make it.
package nccl
