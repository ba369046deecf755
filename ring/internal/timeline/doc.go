// Package timeline records the phases of each tensor as Chrome trace events, for
// chrome://tracing and Perfetto.
//
// The file has the structure of Horovod's timeline. Each tensor is a row, that is, a process
// of the trace format. It has, in sequence:
//
//	NEGOTIATE_ALLREDUCE                 from the first rank's submission to the last,
//	  0  1  2                           with a mark for each rank
//	ALLREDUCE                           with the type and shape
//	  QUEUE
//	  MEMCPY_IN_FUSION_BUFFER
//	  RING_ALLREDUCE
//	  MEMCPY_OUT_FUSION_BUFFER
//
// Format: "Trace Event Format", the JSON array form, in which the closing bracket may
// be missing, so that the timeline of a killed job can be read. Times are
// microseconds since the start, by the monotonic clock.
package timeline
