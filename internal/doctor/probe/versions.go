package probe

import (
	"context"
	_ "embed"
	"encoding/json"
	"io/fs"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// askPython prints the versions of Python and of packages, without importing them, which would take
// seconds.
//
//go:embed versions.py
var askPython string

// versions returns the versions of the software that ranks would load here.
func versions(ctx context.Context, root fs.FS, found map[string]string) {
	for _, python := range []string{"python3", "python"} {
		if json.Unmarshal([]byte(output(ctx, python, "-c", askPython)), &found) == nil && found["python"] != "" {
			break
		}
	}
	for name, value := range found {
		found[name] = clipped(value, 64)
	}
	if version := regexp.MustCompile(`Kernel Module +(?:for \S+ +)?([0-9.]+)`).FindStringSubmatch(text(root,
		"proc/driver/nvidia/version")); version != nil {
		found["driver"] = version[1]
	}
	if line := firstLine(ctx, "mpirun", "--version"); line != "" {
		found["mpi"] = line
	}
}

// firstLine returns the first line of a program's output, or "".
func firstLine(ctx context.Context, name string, args ...string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(output(ctx, name, args...)), "\n")
	return clipped(line, 64)
}

// output returns a program's output, or "" if it fails or exceeds the time.
func output(ctx context.Context, name string, args ...string) string {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return clipped(string(out), 16<<10)
}
