//go:build !race

package kv

const underRace = false
