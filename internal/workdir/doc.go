// Package workdir keeps a copy of a folder on another host: what --stage does. One side scans
// the folder and packs what the other lacks; the other compares, unpacks and remembers.
//
// They talk through one command. The host's half is [Serve]:
//
//	host      → preamble with the nonce; a line {"build"}
//	launcher  → a gzip member: the [Offer], in JSON
//	host      → lines {"waiting"}, while another launch has the copy;
//	            a line {"shared"}, and it is over; or a line {"want"}
//	launcher  → a gzip member: a tar with the contents of what is wanted
//	host      → a line {"done"}
//
// or, at any time, a line {"error"} from the host. Names in the tar must be of the offer, and those
// of the offer are checked once: nothing is ever written outside of the copy.
//
// A copy is a folder below ~/.cache/gorun/work. Beside it lie, with its name and an ending: .json, the
// record of what was put there; .lock, held while it changes; .new, files that are not whole yet.
package workdir
