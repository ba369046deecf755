// Package bench times ring's collectives, and shows what came of it.
//
// The ranks run [Run] and print a [Row] for each size; whoever started them
// reads the rows and shows them as a [Table] or a [Plot]. Sizes, columns and bandwidths
// mean what they mean in nccl-tests: size is the whole vector, algbw is size by
// time, and busbw is algbw times what the collective must move over every link for
// each byte of the vector, so that it can be compared with the speed of a link.
package bench
