// Package nccl calls NVIDIA's driver (libcuda) and NCCL (libnccl), which it loads at run time. It is built without their
// headers: what it uses of them is declared in shim.h. Where there is no cgo, loading fails and nothing else is called.
//
// What a call needs of a GPU's context is done in the same crossing into C as the call, so that it may come from any
// thread.
package nccl
