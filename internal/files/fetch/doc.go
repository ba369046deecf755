// Package fetch brings files of a host to the launcher: those that match patterns, and what is in
// folders that do. The agent finds and sends them ([Send]); the launcher validates and keeps them
// ([Receive]).
//
// They exchange frames of package wire before the agent has its job:
//
//	launcher → fetch
//	agent    → folder…: the [List] in JSON, compressed by gzip
//	agent    → offer: the next file of the list, with the sums of its chunks
//	launcher → offered (how much of it is there)
//	agent    → piece…: the rest of the file
//	launcher → enough, when all files are there
//
// The agent offers some files before the pieces of the first, so that many small files do not take
// a round trip each. As in package relay, bytes count once the SHA-256 of their chunk is right, and
// a launch that is repeated goes on from what is there.
//
// The host may be hostile: nothing is written outside the launcher's folder, nor more than the list
// announces. The agent reports an error by a refuse at any time.
package fetch
