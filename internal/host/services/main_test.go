package services

import (
	"os"
	"testing"
)

// mapWord makes this test binary a process that has mapped files.
const mapWord = "__map"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == mapWord {
		os.Exit(mapFiles(os.Args[2:]))
	}
	os.Exit(m.Run())
}
