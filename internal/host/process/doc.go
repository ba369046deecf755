// Package process looks into other processes of this host, as /proc shows them. It opens a process
// once, so that its number cannot pass to another one meanwhile, and only if all its user IDs are
// this process's: nothing that another user's process says of itself is read or obeyed.
package process
