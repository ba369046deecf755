package dialect

import (
	"strings"

	"github.com/gorun/gorun/internal/usage"
)

// gtool reads Intel MPI's -gtool: TOOL:RANKS, several separated by semicolons.
func (t *translator) gtool(typed, text string) error {
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		_, ranks, _ := strings.Cut(part[strings.LastIndexByte(part, ' ')+1:], ":")
		if strings.ContainsAny(ranks, "=@") {
			return usage.Errorf("write the tool and its ranks alone: -gtool 'TOOL:0,8-11'",
				"%s %s: gorun knows no modes and architectures of tools", typed, usage.Clipped(part))
		}
		t.emit("tool", typed, part)
	}
	return nil
}
