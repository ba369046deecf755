//go:build race

package kv

const underRace = true
