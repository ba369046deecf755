//go:build !linux

package memexec

import (
	"errors"
	"os"
)

// memory fails: Linux alone has files in memory.
func memory(string) (*os.File, error) { return nil, errors.ErrUnsupported }
