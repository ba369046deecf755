package e2e

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
)

// groff reads every manual page without a warning.
func TestManualIsSound(t *testing.T) {
	lab.Need(t, "groff")
	for _, page := range []string{"", "bench", "compat", "man", "completion"} {
		r := start(t, nil, strings.Fields("man "+page)...).want(0)
		cmd := exec.CommandContext(t.Context(), "groff", "-man", "-Tutf8", "-ww", "-k", "-Z")
		cmd.Stdin = bytes.NewReader(r.out.Bytes())
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		if err := cmd.Run(); err != nil || complaints.Len() > 0 {
			t.Errorf("gorun man %s: %v\n%s", page, err, &complaints)
		}
	}
	start(t, nil, "man", "nosuch").want(2, `unknown command "nosuch"`, "bench")
}
