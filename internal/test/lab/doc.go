// Package lab makes real SSH hosts for tests and for the demo: real OpenSSH
// servers with generated keys, and an ssh_config file that leads to them.
//
// [Loopback] needs no privilege: every host is an sshd on its own loopback
// address and runs commands as the current user. [Namespaces] needs root: every
// host has its own network, processes, mounts and host name, and its link can
// be cut. Both return a [Cluster].
//
// A guardian process takes a cluster down when the process that made it closes it, exits or is
// killed.
package lab
