// Package engine runs the collectives of a communicator on raw bytes: it picks the algorithm of
// each call, and drives shared memory and the network. Package ring adds the life of a communicator
// and typed buffers.
package engine
