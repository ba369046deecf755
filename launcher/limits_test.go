package launcher

import "testing"

func TestFilesFor(t *testing.T) {
	for _, tt := range []struct {
		hosts int
		limit uint64
		want  string
	}{
		{256, 64, "connections to 256 hosts need about 536 open files, and gorun may have 64"},
		{256, 1024, ""},
		{20, 64, ""},
		{1, 20, "connections to 1 host need about 26 open files, and gorun may have 20"},
	} {
		got := ""
		if err := filesFor(tt.hosts, tt.limit); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%d hosts, limit %d: %q, want %q", tt.hosts, tt.limit, got, tt.want)
		}
	}
}
