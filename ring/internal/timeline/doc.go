// Package timeline records what happens to each tensor, and when, as Chrome trace
// events, for chrome://tracing and Perfetto.
//
// The file is what Horovod's timeline writes, so that its readers find their way. Each
// tensor is a row, that is, a process of the trace format. In it, one after the other:
//
//	NEGOTIATE_ALLREDUCE                 from the first rank that has it to the last,
//	  0  1  2                           with a mark when each rank has come
//	ALLREDUCE                           with the type and shape
//	  QUEUE
//	  MEMCPY_IN_FUSION_BUFFER
//	  RING_ALLREDUCE
//	  MEMCPY_OUT_FUSION_BUFFER
//
// Format: "Trace Event Format", the JSON array form, in which the closing bracket may
// be missing: the timeline of a job that was killed can be read as well. Times are
// microseconds since the start, by the monotonic clock.
package timeline
