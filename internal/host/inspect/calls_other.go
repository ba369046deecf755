//go:build !amd64

package inspect

func oldCallNames() map[int]string { return nil }
