package config

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Ask runs ssh -G, where ssh is a program's path, with the given arguments and returns the values
// that it prints, as Values does. The error holds what it wrote to stderr.
func Ask(ctx context.Context, ssh string, args ...string) (map[string][]string, error) {
	cmd := exec.CommandContext(ctx, ssh, append([]string{"-G"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second // a command of its Match exec that hangs holds stderr open
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("ssh -G: %w: %s", err, stderr.String())
	}
	return parseDump(out), nil
}

// parseDump reads what ssh -G prints: a keyword and a value on each line, the keyword again for
// another value.
func parseDump(out []byte) map[string][]string {
	values := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		keyword, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		keyword = strings.ToLower(keyword)
		values[keyword] = append(values[keyword], strings.TrimSpace(value))
	}
	return values
}
