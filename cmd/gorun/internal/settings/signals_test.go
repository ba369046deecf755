package settings

import (
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

func TestWarning(t *testing.T) {
	for text, want := range map[string]string{
		"USR1@2m":     "USR1@2m0s",
		"sigusr2@90":  "USR2@1m30s",
		"10":          "USR1@1m0s",
		"R:TERM@0":    "TERM@0s",
		"@5m":         "USR1@5m0s",
		"B:USR1@60":   "",
		"":            "",
		"NOSUCH@60":   "",
		"0@60":        "",
		"65":          "",
		"USR1@":       "",
		"USR1@-1":     "",
		"USR1@60@60":  "",
		"USR1 @ 60":   "",
		"R:B:USR1@60": "",
	} {
		var w Warning
		err := w.Set(text)
		got := w.String()
		check.That(t, got == want && (err == nil) == (want != ""), "Set(%q) = %q, %v, want %q", text, got, err, want)
	}
}

func TestWarningComesBeforeTheEarlierLimit(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		timeout time.Duration
		slurm   string
		want    time.Duration
		limited bool
	}{
		{0, "", 0, false},
		{0, "never", 0, false},
		{10 * time.Minute, "", 9 * time.Minute, true},
		{30 * time.Second, "", 0, true},
		{0, "1000300", 4 * time.Minute, true},
		{10 * time.Minute, "1000300", 4 * time.Minute, true},
		{3 * time.Minute, "1000300", 2 * time.Minute, true},
		{0, "999999", 0, true},
	} {
		w := Warning{Before: Seconds(time.Minute)}
		after, limited := w.After(c.timeout, now, func(string) string { return c.slurm })
		check.That(t, after == c.want && limited == c.limited,
			"limits %v and %q: after %v, %v, want %v, %v", c.timeout, c.slurm, after, limited, c.want, c.limited)
	}
}
