// Package pmi serves PMI-1, with which MPICH and its derivatives find their peers, to the ranks of one host.
//
// A rank sends lines of key=value words and gets one line for each, over a socket that it inherited
// (PMI_FD) or one that it opened (PMI_PORT). After the next barrier, every rank of the job can get what
// another rank has put. A barrier is a fence of the job's store, whose values are the puts since the last
// barrier: one message per host in each direction, after which every get is answered locally.
//
// The protocol is that of MPICH 4.0.2's client and Hydra's server; see
// https://wiki.mpich.org/mpich/index.php/PMI_v1.1_API.
package pmi
