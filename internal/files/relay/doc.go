// Package relay brings a file to many hosts while its sender sends it once: hosts pass it on.
//
// A host fetches the file from one that joined the relay earlier, over an authenticated and
// encrypted connection, and serves it to those that joined later as far as it has it. So the file
// runs through all hosts as through a pipeline. Bytes count once the SHA-256 of their chunk is
// right, which the launcher has told over its own connection. When a link breaks, or a host sends
// something else, the next earlier host is asked for the rest; a host that reaches none asks the
// launcher. A launch that is repeated goes on from what is there.
//
//	launcher → offer (place, size, sums, secret)
//	agent    → offered (where it listens, its certificate, how much it has)
//	launcher → peers…                 those to fetch from; later, those that may fetch
//	agent    → passed…                progress; it may ask for pieces
//	launcher → piece…
//	launcher → enough                 all hosts have the file, or have failed
//	agent    → passed (done, path)
package relay
