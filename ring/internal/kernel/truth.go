package kernel

import "encoding/binary"

// ones has a 1 in each of its bytes.
const ones = 0x0101010101010101

// Normalize makes 1 of each byte of a vector of Bool that is neither 0 nor 1. Programs that count
// such elements, or branch on them, rely on that.
func Normalize(vector []byte) {
	for ; len(vector) >= 8; vector = vector[8:] {
		if word := binary.NativeEndian.Uint64(vector); word&^ones != 0 {
			binary.NativeEndian.PutUint64(vector, truths(word))
		}
	}
	for i, b := range vector {
		vector[i] = byte(truths(uint64(b)))
	}
}

// truths returns a word with a 1 for each byte that is not 0.
func truths(word uint64) uint64 {
	const lower = ones * 0x7f
	return ((word&lower + lower) | word) >> 7 & ones
}
