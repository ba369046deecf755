//go:build !linux

package buildid

import "os"

// Self returns a path that opens and runs this process's executable, or what has taken its place.
func Self() (string, error) { return os.Executable() }
