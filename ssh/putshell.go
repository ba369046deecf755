package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/gorun/gorun/internal/prose"
)

// The scripts that replace SFTP. They are single lines without ' \ and !, so that every login shell
// passes them to sh unchanged.
const (
	// $1 directory, $2 temporary file, $3 mode, $4 word to mark the answer with.
	// noclobber makes the shell create the file anew or fail.
	receiveScript = `umask 077 && mkdir -p "$1" && (set -C && cat >"$2") && chmod "$3" "$2" && echo "$4:$(($(wc -c <"$2"))):"`
	// $1 temporary file, $2 final name. mv would move into a directory.
	placeScript  = `if [ -d "$2" ]; then echo "$2 is a directory" >&2; exit 1; fi; mv -f "$1" "$2"`
	removeScript = `rm -f "$1"`
)

// PutByShell writes the bytes of r to a file as [Client.Put] does, with only a POSIX shell on the
// host. Run runs a command there, as [Client.Run] does; a relative path begins at its working
// directory.
func PutByShell(ctx context.Context, run RunFunc, name string, mode fs.FileMode, r io.Reader) error {
	u, err := newUpload(name, mode, r)
	if err != nil {
		return err
	}
	return u.byShell(ctx, run)
}

// RunFunc runs a command with the contract of [Client.Run].
type RunFunc func(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error

// byShell writes the file by shell commands. A second command renames it after the first has
// counted the bytes: a broken connection looks like the end of the file.
func (u upload) byShell(ctx context.Context, run RunFunc) error {
	sent := &counter{from: u.from}
	out := prose.NewTail(4 << 10) // start files may print without limit first
	err := run.script(ctx, receiveScript, sent, out, path.Dir(u.name), u.temp, fmt.Sprintf("%04o", u.mode), u.mark)
	if err == nil {
		said, _ := out.End()
		err = sent.compare(said, u.mark)
	}
	if err == nil {
		err = run.script(ctx, placeScript, nil, io.Discard, u.temp, u.name)
	}
	if err != nil && ctx.Err() == nil {
		run.script(ctx, removeScript, nil, io.Discard, u.temp) // best effort
	}
	return err
}

// script runs a sh script with arguments. Its error ends with the script's stderr.
func (run RunFunc) script(ctx context.Context, script string, stdin io.Reader, stdout io.Writer, args ...string) error {
	stderr := prose.NewTail(maxText)
	argv := append([]string{"sh", "-c", script, "gorun-put"}, args...)
	err := run(ctx, argv, stdin, stdout, stderr)
	if text := stderr.String(); err != nil && text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// counter counts the bytes read from a reader, which may be read after the command has ended.
type counter struct {
	from io.Reader
	n    atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// compare finds the script's answer among the output of shell start files.
func (c *counter) compare(out, mark string) error {
	answer := regexp.MustCompile(regexp.QuoteMeta(mark) + `:(\d+):`).FindStringSubmatch(out)
	if answer == nil {
		return errors.New("the shell did not confirm: it says " +
			strconv.Quote(prose.Printable(strings.TrimSpace(out))))
	}
	if got := answer[1]; got != strconv.FormatInt(c.n.Load(), 10) {
		return fmt.Errorf("%d bytes were sent, but %s have arrived", c.n.Load(), got)
	}
	return nil
}
