package agent

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// Build identifies the content of the executable at path: the Go linker's build
// id, which is a hash of it, or the SHA-256 of the file when it has none.
func Build(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if exe, err := elf.NewFile(file); err == nil {
		if note := exe.Section(".note.go.buildid"); note != nil {
			// 12 bytes of sizes and type, the name "Go\0\0", the id.
			if data, err := note.Data(); err == nil && len(data) > 16 {
				return string(data[16:]), nil
			}
		}
	}
	return Hash(path)
}

// Hash is the SHA-256 of the file at path, in hex.
func Hash(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("hash %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
