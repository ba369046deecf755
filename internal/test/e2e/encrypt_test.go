package e2e

import (
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
)

// S3: --encrypt reaches the ranks, and the results are bit for bit those without it.
func TestS3Encrypt(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	clear := lossBits(t, start(t, c, "-np", "4", "-H", "f1:2,f2:2", binary("mnist")).want(0), 4)
	sealed := lossBits(t, start(t, c, "--encrypt", "-np", "4", "-H", "f1:2,f2:2", binary("mnist")).want(0), 4)
	if clear != sealed {
		t.Errorf("losses %s and, encrypted, %s", clear, sealed)
	}
	for flag, want := range map[string]string{"--encrypt": "is 1\n", "--encrypt=false": "is\n"} {
		// The launcher's environment does not decide about the job.
		r := startIn(t, c, []string{"GORUN_ENCRYPT=1"}, flag, "--prefix", "none", "-H", "f1", "sh", "-c", "echo is $GORUN_ENCRYPT").want(0)
		if r.out.String() != want {
			t.Errorf("%s: GORUN_ENCRYPT %q, want %q", flag, r.out.String(), want)
		}
	}
}
