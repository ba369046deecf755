package ssh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	xssh "golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/prose"
)

// learnCommand returns a command that adds the host's keys to the user's known_hosts file, or "" if
// that file keeps nothing.
func (s settings) learnCommand() string {
	if len(s.userKnownHosts) == 0 {
		return ""
	}
	file := s.userKnownHosts[0]
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return ""
	}
	if s.hostKeyAlias != "" || !s.direct() { // ssh-keyscan knows neither
		return s.shell("ssh -o BatchMode=no -o StrictHostKeyChecking=ask", "true")
	}
	scan := fmt.Sprintf("ssh-keyscan -p %d %s >> %s", s.port, prose.Quoted(s.hostname), prose.Quoted(file))
	if _, err := os.Stat(filepath.Dir(file)); errors.Is(err, os.ErrNotExist) {
		scan = "mkdir -p -m 700 " + prose.Quoted(filepath.Dir(file)) + " && " + scan
	}
	return scan
}

// learn adds an unknown host's key to the user's known_hosts file. The file is locked and read
// again first, because other processes may add the key too.
func (k *hostKeys) learn(ctx context.Context, key xssh.PublicKey) error {
	if cert, ok := key.(*xssh.Certificate); ok {
		key = cert.Key
	}
	if len(k.settings.userKnownHosts) == 0 {
		return nil // UserKnownHostsFile none: accepted but not saved
	}
	file := k.settings.userKnownHosts[0]
	if err := k.append(ctx, file, key); err != nil {
		if _, is := errors.AsType[Hinter](err); is {
			return err
		}
		return &ConfigError{k.settings.alias, fmt.Errorf("remembering the host key: %w", err)}
	}
	return nil
}

func (k *hostKeys) append(ctx context.Context, file string, key xssh.PublicKey) error {
	// The home directory may be another user's, as that of root is after sudo -E.
	if _, err := os.Stat(filepath.Dir(file)); errors.Is(err, os.ErrNotExist) {
		if err := trust.MakeDir(filepath.Dir(file)); err != nil {
			return err
		}
	}
	f, err := trust.Append(file)
	if err != nil {
		return err
	}
	defer f.Close() // also releases the lock
	l := &learning{}
	if k.resolver != nil {
		l = &k.resolver.learning
	}
	l.Lock()
	defer l.Unlock()
	if err := l.lock(ctx, f); err != nil {
		return err
	}
	if err := k.load(); err != nil {
		return err
	}
	var unknown *UnknownHostKeyError
	if err := k.judge(ctx, key); !errors.As(err, &unknown) {
		return err // another process was first, with this key or another
	}
	line := k.line(key) + "\n"
	if !endsLine(f) {
		line = "\n" + line
	}
	_, err = f.WriteString(line)
	return err
}

// line returns the host's entry, with a hashed name if HashKnownHosts is set.
func (k *hostKeys) line(key xssh.PublicKey) string {
	name := k.names()[0]
	if k.settings.hashKnownHosts {
		name = xknownhosts.HashHostname(name)
	}
	return xknownhosts.Line([]string{name}, key)
}

// endsLine reports whether f is empty or ends with a line break.
func endsLine(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err == nil
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, info.Size()-1)
	return err != nil || last[0] == '\n'
}

// lockTime bounds the wait for a lock: another user who may read the file may hold it forever.
const lockTime = 2 * time.Second

// lock takes the file's exclusive lock, until the file is closed. After lockTime it gives the lock
// up for good: then two processes may add one key. It polls, because a blocking call would not end
// with ctx.
func (l *learning) lock(ctx context.Context, f *os.File) error {
	if l.unlocked {
		return nil
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(lockTime)
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		select {
		case <-tick.C:
		case <-end:
			l.unlocked = true
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%s is locked by another process: %w", f.Name(), context.Cause(ctx))
		}
	}
}
