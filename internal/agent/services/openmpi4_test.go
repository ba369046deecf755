package services

import (
	"fmt"
	"os"
	"testing"

	"github.com/gorun/gorun/internal/contain"
)

func TestOpenMPI4LeavesNothing(t *testing.T) {
	o, err := newOpenMPI4([]byte("library"), contain.Guard{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", o.library.Fd()))
	if string(text) != "library" || err != nil {
		t.Errorf("ranks would load %q, %v", text, err)
	}
	if err := os.WriteFile(o.folder+"/vader_segment", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o.close()
	if _, err := os.Stat(o.folder); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestNumbersOfJobs(t *testing.T) {
	seen := map[uint32]bool{}
	for i := range 1000 {
		n := numberOf(fmt.Sprint("job", i))
		if int16(n) <= 0 || int16(n>>16) < 0 {
			t.Fatalf("job %d has number %#x", i, n)
		}
		seen[n] = true
	}
	if len(seen) < 990 {
		t.Errorf("1000 jobs have %d numbers", len(seen))
	}
}
