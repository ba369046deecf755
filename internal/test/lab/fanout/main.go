// Command fanout runs one command on many hosts in parallel over bare SSH, which is the least that
// any launcher does: one connection, one session and one exec per host. Launch benchmarks compare
// gorun with it.
//
//	fanout IDENTITY USER KNOWN_HOSTS COMMAND HOST:PORT…
package main

import (
	"fmt"
	"os"
	"sync"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func main() {
	if len(os.Args) < 6 {
		fmt.Fprintln(os.Stderr, "usage: fanout IDENTITY USER KNOWN_HOSTS COMMAND HOST:PORT…")
		os.Exit(2)
	}
	config, err := clientConfig(os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, "fanout:", err)
		os.Exit(1)
	}
	hosts := os.Args[5:]
	errs := make([]error, len(hosts))
	var wg sync.WaitGroup
	for i, host := range hosts {
		wg.Go(func() { errs[i] = run(config, host, os.Args[4]) })
	}
	wg.Wait()
	code := 0
	for i, err := range errs {
		if err != nil {
			fmt.Fprintf(os.Stderr, "fanout: %s: %v\n", hosts[i], err)
			code = 1
		}
	}
	os.Exit(code)
}

func clientConfig(identity, user, known string) (*xssh.ClientConfig, error) {
	text, err := os.ReadFile(identity)
	if err != nil {
		return nil, err
	}
	key, err := xssh.ParsePrivateKey(text)
	if err != nil {
		return nil, err
	}
	check, err := knownhosts.New(known)
	if err != nil {
		return nil, err
	}
	return &xssh.ClientConfig{
		User:              user,
		Auth:              []xssh.AuthMethod{xssh.PublicKeys(key)},
		HostKeyCallback:   check,
		HostKeyAlgorithms: []string{xssh.KeyAlgoED25519},
	}, nil
}

func run(config *xssh.ClientConfig, host, command string) error {
	client, err := xssh.Dial("tcp", host, config)
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return err
	}
	defer session.Close()
	return session.Run(command)
}
