package nccl

import "fmt"

// Fn is a function of NCCL that moves data.
type Fn int32

// The functions, as shim.c numbers them.
const (
	AllReduce Fn = iota
	ReduceScatter
	AllGather
	Broadcast
	Reduce
	Send
	Recv
)

// DataType is ncclDataType_t.
type DataType int32

// The types that every version has, but for BFloat16, which came with [VersionAvg].
const (
	Int8 DataType = iota
	Uint8
	Int32
	Uint32
	Int64
	Uint64
	Float16
	Float32
	Float64
	BFloat16
)

// Op is ncclRedOp_t.
type Op int32

// The operations that every version has, but for Avg.
const (
	Sum Op = iota
	Prod
	Max
	Min
	Avg
)

// Versions from which on NCCL has something, as [Library.Version] has them.
const (
	VersionAvg = 21000 // first version with Avg and BFloat16
)

// Step is one call of NCCL, laid out as ring_step in shim.h. Peer is the root, or the other rank of
// a Send or Recv.
type Step struct {
	Fn         Fn
	Type       DataType
	Op         Op
	Peer       int32
	Send, Recv uintptr
	Count      uintptr
	// if Scaled, the bits of a number of the Type by which elements are multiplied before they are
	// summed
	Scale  uint64
	Scaled int32
	_      int32
}

// IDSize is the size of an ncclUniqueId, by which the ranks of a communicator find each other.
const IDSize = 128

// Result is ncclResult_t.
type Result int32

// The results that a caller has to know apart.
const (
	Success         Result = 0
	InvalidArgument Result = 4
	InProgress      Result = 7
)

func (r Result) String() string {
	names := [...]string{"success", "unhandled CUDA error", "system error", "internal error", "invalid argument",
		"invalid usage", "remote error", "in progress", "timeout"}
	if r < 0 || int(r) >= len(names) {
		return fmt.Sprintf("result %d", int32(r))
	}
	return names[r]
}

// version is a version of NCCL as people write it.
func version(code int) string {
	if code < 10000 { // up to 2.8
		return fmt.Sprintf("%d.%d.%d", code/1000, code/100%10, code%100)
	}
	return fmt.Sprintf("%d.%d.%d", code/10000, code/100%100, code%100)
}
