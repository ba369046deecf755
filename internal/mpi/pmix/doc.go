// Package pmix serves PMIx, with which Open MPI finds its peers, to the ranks of one host.
//
// The protocol is libpmix's own and differs by version, so a helper program (folder helper, in C)
// loads the libpmix that the ranks' MPI loads, and is the server. What the library asks of its
// host, the helper asks this package over a socket, and this package the job's store: a fence of
// all ranks, data of a rank on another host, published names. The helper knows only one job and no
// network.
//
// PMIx: https://pmix.org/standard. The helper's messages are in frame.go and helper.h.
package pmix
