//go:build !cgo

package nvml

import (
	"errors"

	"github.com/gorun/gorun/gpu"
)

// List fails: this program was built without cgo.
func List() ([]gpu.Device, error) {
	return nil, errors.New("built without cgo, so the NVIDIA driver cannot be asked")
}

// Examine fails as List does.
func Examine() ([]gpu.Device, error) { return List() }
