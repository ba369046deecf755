// Package probe measures one host for gorun doctor: what it is, how fast it is, and how it reaches
// the others. It runs as the one rank of a host, meets the other ranks by a fence, and writes each
// result as one JSON line.
package probe
