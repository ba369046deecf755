// Package release stores words that other threads or processes read with atomic loads: whoever sees
// the new value sees all that was stored before it. Unlike sync/atomic's, a store here does not
// wait until others can see it, which takes longer than the rest of a short call does. So a load
// after it may be done before it: where each side stores its own word and then reads the other's,
// use sync/atomic.
package release
