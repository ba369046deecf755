package ssh

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	words, err := splitWords(command)
	if err != nil {
		return nil, err
	}
	if len(words) == 0 || !filepath.IsAbs(words[0]) {
		return nil, errors.New("its path is not absolute")
	}
	tokens := append(thisMachine().tokens(k.settings), "%H", name, "%I", purpose)
	if key == nil {
		tokens = append(tokens, "%f", "NONE", "%K", "NONE", "%t", "NONE")
	} else {
		blob := base64.StdEncoding.EncodeToString(key.Marshal())
		tokens = append(tokens, "%f", xssh.FingerprintSHA256(bare(key)), "%K", blob, "%t", key.Type())
	}
	texts := map[string]string{}
	for pair := range slices.Chunk(tokens, 2) {
		texts[pair[0]] = pair[1]
	}
	for i, word := range words[1:] {
		if words[1+i], err = expandWord(word, texts); err != nil {
			return nil, err
		}
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

// splitWords splits a command as OpenSSH does (argv_split): quotes of both kinds keep blanks, and a
// backslash stands for itself but before a quote, another one, or a blank outside of quotes.
func splitWords(command string) (words []string, err error) {
	var word []byte // nil between words
	quote := byte(0)
	for i := 0; i < len(command); i++ {
		c := command[i]
		next := command[i+1 : min(i+2, len(command))]
		blank := quote == 0 && (c == ' ' || c == '\t')
		switch {
		case blank && word != nil:
			words = append(words, string(word))
			word = nil
			continue
		case blank:
			continue
		case word == nil:
			word = []byte{}
		}
		switch {
		case c == '\\' && next != "" && (strings.Contains(`'"\`, next) || quote == 0 && next == " "):
			i++
			word = append(word, next...)
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote != 0 && c == quote:
			quote = 0
		default:
			word = append(word, c)
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if word != nil {
		words = append(words, string(word))
	}
	return words, nil
}

// expandWord replaces tokens by their texts, and ${NAME}, in one pass. As with OpenSSH, each must
// be known.
func expandWord(word string, texts map[string]string) (string, error) {
	var b strings.Builder
	for word != "" {
		switch {
		case strings.HasPrefix(word, "${"):
			name, rest, closed := strings.Cut(word[2:], "}")
			value, set := os.LookupEnv(name)
			if !closed || !set {
				return "", fmt.Errorf("${%s} has no value", name)
			}
			b.WriteString(value)
			word = rest
		case word[0] == '%':
			token := word[:min(2, len(word))]
			text, known := texts[token]
			if !known {
				return "", fmt.Errorf("%q is no token", token)
			}
			b.WriteString(text)
			word = word[2:]
		default:
			b.WriteByte(word[0])
			word = word[1:]
		}
	}
	return b.String(), nil
}

// bare returns the key in a certificate, or the key itself.
func bare(key xssh.PublicKey) xssh.PublicKey {
	if cert, certified := key.(*xssh.Certificate); certified {
		return cert.Key
	}
	return key
}
