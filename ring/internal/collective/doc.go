// Package collective describes one call of a collective: to its caller with its memory, which
// [Check] validates, and to the other ranks, which compare it with their own.
package collective
