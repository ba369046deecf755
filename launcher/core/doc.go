// Package core decides the course of a job with fixed ranks and explains its end.
//
// A [Machine] is pure: events with times in, actions out. Its [Result] names the first failure that
// is no consequence of another. [Fences] collects the values that ranks exchange.
package core
