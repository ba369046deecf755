package ssh

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"

	xssh "golang.org/x/crypto/ssh"
)

// Identity returns a hash of all that Dial would use to reach and log in to a host: names, port,
// user, keys, agent, jump hosts, proxy command and the names of known_hosts files. A connection
// that was dialed with the same identity is the one that Dial would make, if the host's key still
// passes [CheckHostKey].
func Identity(ctx context.Context, c Config) (string, error) {
	sum := sha256.New()
	if err := c.identify(ctx, sum, "", 0); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// identify hashes the way to c.Host through the given jump hosts, or through the configured ones if
// jump is empty, as dial goes it.
func (c Config) identify(ctx context.Context, sum hash.Hash, jump string, depth int) error {
	if depth > maxJumps {
		return &ConfigError{c.Host, fmt.Errorf("more than %d jump hosts in a row", maxJumps)}
	}
	s, err := resolve(ctx, c)
	if err != nil {
		return err
	}
	if jump != "" {
		s.jump = jump
	}
	s.connectTimeout = 0
	s.handshakeTimeout = 0
	s.byHand = nil
	dir, err := os.Getwd() // base of relative names
	if err != nil {
		return &ConfigError{c.Host, err}
	}
	fmt.Fprintf(sum, "%d %#v\n", depth, s)
	if s.proxyCommand != "" {
		fmt.Fprintf(sum, "from %q\n", dir)
	}
	for _, f := range s.identityFiles {
		identifyFile(sum, dir, f.path)
	}
	for _, path := range slices.Concat(s.certificateFiles, s.userKnownHosts, s.globalKnownHosts, s.revokedHostKeys) {
		fmt.Fprintf(sum, "%q\n", absolute(dir, path))
	}
	for _, path := range s.certificateFiles {
		identifyFile(sum, dir, path)
	}
	if s.jump == "" {
		return nil
	}
	before, hop, err := c.lastHop(s.jump)
	if err != nil {
		return err
	}
	return hop.identify(ctx, sum, before, depth+1)
}

// identifyFile hashes which file a name stands for now.
func identifyFile(sum hash.Hash, dir, path string) {
	path = absolute(dir, path)
	if info, err := os.Stat(path); err == nil {
		fmt.Fprintf(sum, "%q %d %d\n", path, info.Size(), info.ModTime().UnixNano())
	}
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// HostKey returns the key that the host has proved to own, in SSH's wire format.
func (c *Client) HostKey() []byte { return c.hostKey }

// CheckHostKey verifies a host's key, in SSH's wire format, as Dial would now. It does not accept
// new ones.
func CheckHostKey(ctx context.Context, c Config, key []byte) error {
	parsed, err := xssh.ParsePublicKey(key)
	if err != nil {
		return fmt.Errorf("%s: read its host key: %w", c.Host, err)
	}
	s, err := resolve(ctx, c)
	if err != nil {
		return err
	}
	keys, err := newHostKeys(s, s.target(), c.Resolver)
	if err != nil {
		return err
	}
	return keys.judge(ctx, parsed)
}

// Done returns a channel that is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.ended }

// Ping waits for an answer of the server, or for the end of ctx or of the connection.
func (c *Client) Ping(ctx context.Context) error {
	answer := make(chan error, 1)
	c.work.Go(func() {
		_, _, err := c.conn.SendRequest("keepalive@openssh.com", true, nil) // servers refuse it, which is an answer
		answer <- err
	})
	select {
	case err := <-answer:
		if err != nil {
			return c.lost(err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", c.target, context.Cause(ctx))
	case <-c.ended:
		return c.lost(nil)
	}
}
