package session

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/gorun/gorun/internal/buildid"
)

// Installed describes a gorun that is installed at path, for a program that starts jobs and is not
// gorun itself. It must be of the same version as this package.
func Installed(path string) (Executable, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Executable{}, fmt.Errorf("find gorun: %w", err)
	}
	build, err := buildid.Of(path)
	if err != nil {
		return Executable{}, fmt.Errorf("read gorun: %w", err)
	}
	return Executable{
		Path:   path,
		Build:  build,
		Hash:   sync.OnceValues(func() (string, error) { return buildid.Hash(path) }),
		Packed: sync.OnceValues(func() ([]byte, error) { return packFile(path) }),
	}, nil
}

// packFile compresses the executable at path.
func packFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read gorun: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read gorun: %w", err)
	}
	return pack(file, info.Size())
}
