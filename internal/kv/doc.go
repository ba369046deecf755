// Package kv is the job's key-value store and the doors through which ranks
// reach it. The launcher keeps the one [Store]; every agent opens a [Door] on
// its host's loopback and carries what ranks ask to the launcher and back.
//
// The main verb is the fence: every rank brings one small value and gets the
// values of all. A [Gather] counts values in, per host at the agent and per job
// at the launcher, so that a fence costs one message per host each way.
package kv
