package services

import (
	"os"
	"testing"
)

// portWord makes this test binary a port for ranks in containers.
const portWord = "__port"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == portWord {
		os.Exit(portForOthers())
	}
	os.Exit(m.Run())
}
