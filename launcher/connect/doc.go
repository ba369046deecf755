// Package connect sets up the connections of a job: how many at a time, how many files they need,
// which hosts are slow, and which sessions share a connection.
package connect
