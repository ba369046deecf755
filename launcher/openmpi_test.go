package launcher

import (
	"strings"
	"testing"
)

func TestOpenMPINote(t *testing.T) {
	for name, tc := range map[string]struct {
		size     int
		programs []string
		begins   string
	}{
		"one of two hosts says so": {2, []string{"", "./a\nb"}, "./a; b is linked with Open MPI, "},
		"said once":                {4, []string{"x", "y"}, "x is linked with Open MPI, "},
		"alone it is no harm":      {1, []string{"x"}, ""},
		"no host says so":          {4, []string{"", ""}, ""},
	} {
		if got := openMPINote(tc.size, tc.programs); !strings.HasPrefix(got, tc.begins) || (got == "") != (tc.begins == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
