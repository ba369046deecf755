package pmi

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"unicode"
)

// SegmentFolder has the files in which ranks share memory.
const SegmentFolder = "/dev/shm"

// publishedKey begins the keys under which the first rank of a host tells the others the name of
// their shared memory in MPICH 4, which encodes values in hexadecimal.
const publishedKey = "-bcast-"

// publishedSegment returns the file of the shared memory that a rank publishes, or "" if that is
// something else.
func publishedSegment(key, value string) string {
	if !strings.HasPrefix(key, publishedKey) {
		return ""
	}
	text, err := hex.DecodeString(value)
	name := strings.TrimRight(string(text), "\x00")
	random, is := strings.CutPrefix(name, SegmentFolder+"/mpich_shar_tmp") // name from mkstemp
	if err != nil || !is || len(random) != 6 || strings.ContainsFunc(random, func(c rune) bool {
		return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c)
	}) {
		return ""
	}
	return name
}

// Segments returns the paths of files in which MPICH's ranks of this host share memory, and what is
// before the last number in the names of others. MPICH removes them when all ranks have found them,
// so ranks that are killed before that leave them. It returns nothing while no rank has called
// MPI_Init.
func (h *Host) Segments() (paths []string, numbered string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.inside) == 0 {
		return nil, ""
	}
	hash := fnv.New32a() // MPICH 5 derives the name from the key-value space's
	hash.Write([]byte(h.Name))
	return slices.Clone(h.segments), fmt.Sprintf("mpich_shm_%x_", hash.Sum32())
}

// maxSegments bounds the segments that ranks may publish.
const maxSegments = 64

func (h *Host) published(key, value string) {
	name := publishedSegment(key, value)
	if name == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.segments) < maxSegments {
		h.segments = append(h.segments, name)
	}
}
