// Package admit bounds the connections that anybody can make to a port of gorun: how many there
// are, for each kind of peer, until they have shown that they may stay. It also knows which user
// has the other end of a connection on this machine. All listeners of gorun use it.
package admit
