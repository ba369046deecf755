// Package gloo is the job's store as stock Horovod reads it: the HTTP rendezvous by which the Gloo
// library of each rank tells the others its addresses, and learns theirs.
//
// Horovod's client opens a connection for each request and sends no more than a request line, a host
// and a length; N ranks make 2.5·N² requests. So this is no net/http server, whose cost is
// in what the client lacks: it reads one request, answers and closes.
//
// Its answers make the client's polling needless. A rank asks for another's addresses every 10 ms until
// they are there, for 30 s at most, but it waits for an answer for as long as that takes. Every such question is
// held here until all ranks of its scope have published: ranks that are slow to start
// hold up the others, and end nobody.
//
// The client cannot prove who it is. Each rank has a port of its own on loopback, which takes connections
// of the job's user only, and only its own rank's addresses, once.
package gloo
