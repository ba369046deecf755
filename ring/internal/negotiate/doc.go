// Package negotiate lets ranks that submit named collectives in different orders agree on
// one list of operations, in one order, without a coordinator.
//
// Ranks repeat cycles. In a cycle each rank packs what it has newly submitted into a
// [Frame] ([Negotiator.Encode]), all ranks get the frames of all ranks by one
// allgather, and each takes the same step ([Negotiator.Step]). A step is a pure
// function of the frames so far: so all ranks find the same operations complete, put
// the same ones into one batch, and report the same mismatches. This package moves no
// bytes, starts no goroutine and reads no clock; its caller does.
//
// Requests that do not fit a frame are announced in it ([Negotiator.Rests]) and fetched by
// a second allgather. That is rare: a request that all ranks have agreed on once gets an
// id of a byte or two, and a run of ids in order takes three or four. Ids come from a
// cache that is equal on all ranks because only steps change it. Horovod's
// response cache does the same with a bit for each id (Sergeev, Del Balso, "Horovod",
// 2018, and its response_cache.cc).
//
// A rank with no more requests joins ([Negotiator.Join]): until all ranks have joined,
// tensors do not wait for it. Sums still run on all ranks, and it contributes zeros.
//
// A rank ends the negotiation for all by leaving ([Negotiator.Leave]): all see it in the
// same step, so none waits for another.
//
// A request is checked only when all ranks have made it. So its error reaches every rank's
// own submission, and none remains open when the name is used again.
package negotiate
