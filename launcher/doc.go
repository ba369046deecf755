// Package launcher runs a job on the hosts of a plan.
//
// [Run] connects to every host through the caller's [Dialer], uploads gorun where it is missing and
// starts its agent, starts the ranks once every host is ready, and prints their output. It ends the
// job when a rank fails, when the context ends, or when all ranks have ended. [RunElastic] does the
// same for a job whose hosts come and go. The launcher does not depend on SSH: a [Host] is anything
// that can run a command and take a file.
//
// Package plan makes plans, package core decides what a failure leads to, package route chooses
// networks, package output prints, and package session converses with one host.
package launcher
