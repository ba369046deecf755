// Package doctor judges what hosts measured about themselves and each other: it names bad hosts,
// how far off they are, and what to do. It is pure: package probe measures, and the command runs
// the probes as a job of one rank per host.
package doctor
