package pmi

import (
	"encoding/hex"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestSegments(t *testing.T) {
	h := &Host{Name: "kvs_K4MCAYM6YZ6Y"} // MPICH 5.0.2 has made mpich_shm_10466212_0 of it
	paths, numbered := h.Segments()
	check.That(t, paths == nil && numbered == "", "%q, %q before MPI_Init", paths, numbered)
	h.setInside(0, true)
	h.setInside(0, false)
	for key, text := range map[string]string{
		"-bcast-1-0": "/dev/shm/mpich_shar_tmpRhUqq7", "-bcast-2": "/dev/shm/other",
		"-bcast-3": "/dev/shm/../mpich_shar_tmpRhUqq7",
		"-bcast-4": "/etc/mpich_shar_tmpRhUqq7", "-allgather-1": "/dev/shm/mpich_shar_tmpRhUqq8", "-bcast-5": "",
	} {
		h.published(key, hex.EncodeToString([]byte(text)))
	}
	h.published("-bcast-6", "no number")
	paths, numbered = h.Segments()
	check.Slice(t, paths, []string{"/dev/shm/mpich_shar_tmpRhUqq7"})
	check.Equal(t, numbered, "mpich_shm_10466212_")
	for range 2 * maxSegments {
		h.published("-bcast-1-0", hex.EncodeToString([]byte("/dev/shm/mpich_shar_tmpRhUqq7")))
	}
	paths, _ = h.Segments()
	check.Equal(t, len(paths), maxSegments, "segments")
}
