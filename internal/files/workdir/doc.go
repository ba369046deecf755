// Package workdir keeps a copy of a folder on another host, for --stage. The launcher scans the
// folder and sends what the copy lacks ([Sender.Send]); the agent compares, unpacks and records it
// ([Receive]).
//
// They exchange frames of package wire before the agent has its job:
//
//	launcher  → folder…: the [Offer] in JSON, compressed by gzip
//	agent     → waiting…, while another launch changes the copy
//	agent     → staged, if the host sees the folder itself; else want…
//	both      → the pack of the wanted files, by package relay, if there are any
//	agent     → staged
//
// A pack is a tar, compressed by gzip. Hosts that want the same files get the same pack, and pass
// it on; a small one comes from the launcher.
//
// The agent reports an error by a refuse at any time. Paths are validated in the offer, and names
// in the tar must be of the offer, so nothing is written outside the copy.
//
// A copy is a folder below ~/.cache/gorun/work. Beside it are files with its name and an extension:
// .json records what was staged; .lock is held while the copy changes; .part is a pack that has not
// come as a whole; .new holds incomplete files.
package workdir
