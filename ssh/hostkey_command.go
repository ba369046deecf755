package ssh

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gorun/gorun/ssh/internal/knownhosts"
)

// maxCommanded bounds what a KnownHostsCommand may print.
const maxCommanded = 4 << 20

// What a KnownHostsCommand is asked for, its %I.
const (
	forOrder = "ORDER"    // keys that the host is known to have, before it has shown one
	forHost  = "HOSTNAME" // lines about a key that the host has shown
)

// commanded returns the lines that KnownHostsCommand prints about a name of the host, in addition
// to those of files. As with ssh, no key passes if it fails. key may be nil.
func (k *hostKeys) commanded(ctx context.Context, purpose, name string, key xssh.PublicKey) (*knownhosts.File, error) {
	command := k.settings.knownHostsCommand
	if command == "" {
		return &knownhosts.File{}, nil
	}
	text, err := k.run(ctx, command, purpose, name, key)
	if err != nil {
		return nil, &KnownHostsCommandError{k.target, foreign{err}}
	}
	return knownhosts.Parse("KnownHostsCommand", text), nil
}

func (k *hostKeys) run(ctx context.Context, command, purpose, name string, key xssh.PublicKey) ([]byte, error) {
	words := strings.Fields(command)
	switch {
	case strings.ContainsAny(command, `'"\`):
		return nil, errors.New("gorun does not know its quotes")
	case !filepath.IsAbs(words[0]):
		return nil, errors.New("its path is not absolute")
	}
	tokens := append(thisMachine().tokens(k.settings), "%H", name, "%I", purpose)
	if key == nil {
		tokens = append(tokens, "%f", "NONE", "%K", "NONE", "%t", "NONE")
	} else {
		blob := base64.StdEncoding.EncodeToString(key.Marshal())
		tokens = append(tokens, "%f", xssh.FingerprintSHA256(bare(key)), "%K", blob, "%t", key.Type())
	}
	replacer := strings.NewReplacer(tokens...)
	for i, word := range words {
		words[i] = replacer.Replace(word)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { out.Close() }) // a child of the command may hold it open
	text, err := io.ReadAll(io.LimitReader(out, maxCommanded+1))
	stop()
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case len(text) > maxCommanded:
		err = fmt.Errorf("it prints more than %d bytes", maxCommanded)
	}
	if err != nil {
		cancel()
		_ = cmd.Wait()
		return nil, err
	}
	return text, cmd.Wait()
}

// bare returns the key in a certificate, or the key itself.
func bare(key xssh.PublicKey) xssh.PublicKey {
	if cert, certified := key.(*xssh.Certificate); certified {
		return cert.Key
	}
	return key
}
