package knownhosts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gorun/gorun/internal/files/trust"
)

// RevokedIn reports whether a RevokedHostKeys file revokes a key: a list of public keys, one a
// line, or a key revocation list in OpenSSH's binary format, which ssh-keygen is asked to read. If
// the file cannot be read, no key can be trusted.
func RevokedIn(ctx context.Context, file string, key xssh.PublicKey) (bool, error) {
	text, err := trust.ReadFile(file, maxFile)
	if err != nil {
		return false, err
	}
	if bytes.HasPrefix(text, []byte("SSHKRL\n\x00")) {
		return inRevocationList(ctx, file, key)
	}
	for number, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		listed, _, _, _, err := xssh.ParseAuthorizedKey(line)
		if err != nil {
			return false, fmt.Errorf("%s:%d: not a public key: %w", file, number+1, err)
		}
		if revokes(listed, key) {
			return true, nil
		}
	}
	return false, nil
}

// inRevocationList asks ssh-keygen about a key, which it reads from an open file without a name:
// the folder of temporary files may be another user's, who could put another key there.
func inRevocationList(ctx context.Context, file string, key xssh.PublicKey) (bool, error) {
	program, err := trust.Program("ssh-keygen", os.Getenv("PATH"))
	if err != nil {
		return false, fmt.Errorf("read the revoked keys in %s: %w", file, err)
	}
	public, err := trust.Temporary("gorun-host-key-*")
	if err != nil {
		return false, err
	}
	defer public.Close()
	if _, err = public.Write(xssh.MarshalAuthorizedKey(key)); err == nil {
		_, err = public.Seek(0, io.SeekStart)
	}
	if err != nil {
		return false, &trust.TemporaryError{Err: err}
	}
	cmd := exec.CommandContext(ctx, program, "-Q", "-f", file, "/dev/fd/3")
	cmd.ExtraFiles = []*os.File{public}
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false, nil
	}
	if bytes.Contains(out, []byte("REVOKED")) {
		return true, nil
	}
	return false, fmt.Errorf("ssh-keygen -Q -f %s: %w: %s", file, err, strings.TrimSpace(string(out)))
}
