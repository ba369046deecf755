// Package gloo serves the HTTP rendezvous of stock Horovod, through which the Gloo libraries of the
// ranks exchange their addresses.
//
// Horovod's client opens a connection for each request and sends only a request line, a host and a
// length. N ranks make 2.5·N² requests. The server reads one request, answers it in HTTP/1.0 and
// closes.
//
// The client polls for another rank's addresses every 10 ms, for 30 s at most, but waits for each
// answer without limit. So the server answers only when all ranks of the scope have published: a
// slow rank delays the others and fails none.
//
// The client cannot authenticate itself. Each rank has its own port on loopback. The port admits
// connections of the job's user only, and accepts its own rank's addresses only, once.
package gloo
