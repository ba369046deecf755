package probe

import (
	"context"
	_ "embed"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/prose"
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

// maxOutput bounds the output of a program, in bytes.
const maxOutput = 16 << 10

// output returns the beginning of a program's output, or "" if it fails or exceeds the time. The
// program is the first in PATH, which ranks find. It is not run if another user could have made it.
func output(ctx context.Context, name string, args ...string) string {
	path, err := exec.LookPath(name)
	if err != nil || trust.Check(path) != nil {
		return ""
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = trust.StartDir() // Python takes modules from its working directory, which others may own
	cmd.Env = trust.Environ(os.Environ())
	out := &prose.Head{Limit: maxOutput}
	cmd.Stdout = out
	cmd.WaitDelay = time.Second
	if cmd.Run() != nil {
		return ""
	}
	return strings.ToValidUTF8(string(out.Bytes()), "")
}
