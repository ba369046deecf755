// Package buildid tells builds of gorun apart by their build IDs, which are hashes of their
// content.
package buildid

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// Of returns what identifies the content of the executable at path: the Go linker's build
// id, which is a hash of it, or the SHA-256 of the file when it has none.
func Of(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if id := buildID(file); id != "" {
		return id, nil
	}
	return Hash(path)
}

// In is Of for an executable in memory.
func In(program []byte) string {
	if id := buildID(bytes.NewReader(program)); id != "" {
		return id
	}
	sum := sha256.Sum256(program)
	return hex.EncodeToString(sum[:])
}

// Folder is the name of a build's folder in the cache of hosts.
func Folder(build string) string {
	sum := sha256.Sum256([]byte(build))
	return hex.EncodeToString(sum[:8])
}

// buildID returns the Go linker's build id, or "".
func buildID(program io.ReaderAt) string {
	exe, err := elf.NewFile(program)
	if err != nil {
		return ""
	}
	note := exe.Section(".note.go.buildid")
	if note == nil {
		return ""
	}
	data, err := note.Data()
	if err != nil || len(data) <= 16 { // 12 bytes of sizes and type, the name "Go\0\0", the id
		return ""
	}
	return string(data[16:])
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
