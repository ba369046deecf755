package ssh

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/pkg/sftp"
)

// Put writes the bytes of r to a file on the host; a relative path begins at the user's home.
// Missing directories are created with mode 0700. The file appears atomically, or not at all. It
// replaces an existing one; programs that run from that continue.
//
// Put uses SFTP, or a shell with cat, mv and wc if the server has no SFTP. Its session has ended
// when Put returns. If ctx ends first, the connection is closed. After a [*LostError] a Read of r
// may go on.
func (c *Client) Put(ctx context.Context, name string, mode fs.FileMode, r io.Reader) error {
	stop := context.AfterFunc(ctx, func() { c.wire.Close() })
	defer stop()
	err := c.unlessStuck(func() error { return c.put(ctx, name, mode, r) })
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	var stated interface {
		error
		about() Target
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &stated):
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return fmt.Errorf("%s: writing %s: %w", c.target, name, err)
}

func (c *Client) put(ctx context.Context, name string, mode fs.FileMode, r io.Reader) error {
	u, err := newUpload(name, mode, r)
	if err != nil {
		return err
	}
	s, err := c.start(ctx, "subsystem", "sftp")
	if _, is := errors.AsType[refusedError](err); is {
		return u.byShell(ctx, c.Run)
	}
	if err != nil {
		return err
	}
	c.work.Go(func() { io.Copy(io.Discard, s.channel.Stderr()) })
	client, err := sftp.NewClientPipe(s.channel, halfCloser{s}, sftp.UseConcurrentWrites(true))
	if err != nil {
		s.end()
		if c.wire.isClosed() {
			return c.lost(err)
		}
		// A shell start file that prints breaks SFTP only.
		return u.byShell(ctx, c.Run)
	}
	err = u.bySFTP(client)
	client.Close()
	s.end()
	if err != nil && c.wire.isClosed() {
		return c.lost(err)
	}
	return err
}

// halfCloser closes only the writing half, as SFTP ends a session.
type halfCloser struct{ *session }

func (h halfCloser) Write(p []byte) (int, error) { return h.channel.Write(p) }
func (h halfCloser) Close() error                { return h.channel.CloseWrite() }

// upload is the transfer of one file.
type upload struct {
	name string // final path
	temp string // temporary name, in the same directory
	mark string // random letters and digits
	mode fs.FileMode
	from io.Reader
}

func newUpload(name string, mode fs.FileMode, r io.Reader) (upload, error) {
	if name == "" || strings.HasSuffix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return upload{}, fmt.Errorf("%q is not a file's path", name)
	}
	name = path.Clean(name)
	if name[0] == '-' {
		name = "./" + name // otherwise it would look like an option
	}
	mark := rand.Text()[:12]
	dir, base := path.Split(name)
	return upload{
		name: name,
		temp: dir + "." + base + "." + mark,
		mark: mark,
		mode: mode.Perm(),
		from: r,
	}, nil
}

func (u upload) bySFTP(client *sftp.Client) error {
	if err := makeParents(client, path.Dir(u.name)); err != nil {
		return err
	}
	f, err := client.OpenFile(u.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return foreign{err}
	}
	if err := u.fill(client, f); err != nil {
		f.Close()
		client.Remove(u.temp) // if the connection is lost, the temporary file stays
		return foreign{err}
	}
	if err := replace(client, u.temp, u.name); err != nil {
		client.Remove(u.temp)
		return foreign{err}
	}
	return nil
}

// fill writes the open temporary file and closes it.
func (u upload) fill(client *sftp.Client, f *sftp.File) error {
	if err := f.Chmod(0o600); err != nil { // SFTP applies the umask
		return err
	}
	if _, err := f.ReadFrom(u.from); err != nil {
		return err
	}
	if err := f.Chmod(u.mode); err != nil {
		return err
	}
	if _, ok := client.HasExtension("fsync@openssh.com"); ok {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return f.Close()
}

// replace renames over an existing file, which plain SFTP cannot do atomically.
func replace(client *sftp.Client, from, to string) error {
	if _, ok := client.HasExtension("posix-rename@openssh.com"); ok {
		return client.PosixRename(from, to)
	}
	if err := client.Rename(from, to); err == nil {
		return nil
	}
	if err := client.Remove(to); err != nil {
		return err
	}
	return client.Rename(from, to)
}

// makeParents creates dir and its missing parents.
func makeParents(client *sftp.Client, dir string) error {
	if dir == "." || dir == "/" {
		return nil
	}
	if info, err := client.Stat(dir); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a directory", dir)
		}
		return nil
	}
	if err := makeParents(client, path.Dir(dir)); err != nil {
		return err
	}
	if err := client.Mkdir(dir); err != nil {
		if info, again := client.Stat(dir); again == nil && info.IsDir() {
			return nil // another Put created it
		}
		return foreign{fmt.Errorf("making %s: %w", dir, err)}
	}
	if err := client.Chmod(dir, 0o700); err != nil {
		return foreign{fmt.Errorf("making %s: %w", dir, err)}
	}
	return nil
}
