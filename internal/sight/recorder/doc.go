// Package recorder publishes what a rank's collectives do: the call in progress, the last calls as
// a flight recorder, and counters. The rank writes plain words to memory of its own; other
// processes of its user read them.
//
// The memory is a memfd, found by its name in /proc/PID/fd. Only those who may trace the rank can
// open it there (the rank's user, and root), it needs no path that containers share, and nothing of
// it is left when the rank ends. The reader trusts nothing in it.
package recorder
