// Package pmi serves PMI-1 and PMI-2, with which MPICH and its derivatives find their peers, to the
// ranks of one host.
//
// A rank that speaks PMI-1 sends lines of key=value words and gets one line for each, over a socket
// that it inherited (PMI_FD) or one that it opened (PMI_PORT). One whose first line names version 2
// sends messages with a length from then on. After the next barrier, every rank of the job can get
// what another rank has put. A barrier is a fence of the job's store, whose values are the puts
// since the last barrier: one message per host in each direction, after which every get is answered
// locally.
//
// The protocols are those of MPICH 4.0.2's client and Hydra's server, see
// https://wiki.mpich.org/mpich/index.php/PMI_v1.1_API, and of Slurm's libpmi2, see
// src/pmi/maint/pmi-2.0.txt of MPICH.
package pmi
