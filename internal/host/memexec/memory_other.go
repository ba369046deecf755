//go:build !linux

package memexec

import (
	"errors"
	"os"
)

// Create fails: Linux alone has files in memory.
func Create(string) (*os.File, error) { return nil, errors.ErrUnsupported }
