// Package kv is the job's key-value store and the rank servers through which ranks
// reach it. The launcher keeps the one [Store]; every agent runs a [Server] on
// its host's loopback, which carries requests to the launcher and answers back.
//
// The main operation is the fence: every rank sends one small value and gets the
// values of all. [Fences] collect values, per host at the agent and per job
// at the launcher, so that a fence costs one message per host each way.
package kv
