package services

import (
	"os"
	"path/filepath"

	"github.com/gorun/gorun/internal/mpi/pmi"
)

// removeSegments removes the shared memory that the ranks of a world have left, all of which have
// ended.
func removeSegments(h *pmi.Host) {
	for _, pattern := range h.Segments() {
		left, _ := filepath.Glob(pattern) // the pattern is valid
		for _, file := range left {
			_ = os.Remove(file) // another rank's agent may have done so
		}
	}
}
