package services

import (
	"os"
	"testing"
)

// portWord makes this test binary a port for ranks in containers, mapWord a process that has mapped
// files.
const (
	portWord = "__port"
	mapWord  = "__map"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == portWord {
		os.Exit(portForOthers())
	}
	if len(os.Args) > 1 && os.Args[1] == mapWord {
		os.Exit(mapFiles(os.Args[2:]))
	}
	os.Exit(m.Run())
}
