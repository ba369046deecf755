// Package pmi serves PMI-1, by which MPICH and its kin find their peers, to the ranks of one host.
//
// A rank sends lines of key=value words and gets one line for each, over a socket that it inherited
// (PMI_FD) or one that it opened (PMI_PORT). What it puts, it may get again after the next
// barrier, anywhere in the job. A barrier is a fence of the job's store, whose values are
// what the ranks have put since the last: one message a host each way, and
// every get is answered on the spot.
//
// The protocol is what MPICH 4.0.2's client and Hydra's server speak; see
// https://wiki.mpich.org/mpich/index.php/PMI_v1.1_API.
package pmi
