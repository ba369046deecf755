package ssh_test

import (
	"context"
	"fmt"
	"os"

	"github.com/gorun/gorun/ssh"
)

// Quote makes one line of an argument vector, which every usual login shell splits again as it was.
func ExampleQuote() {
	line, err := ssh.Quote([]string{"echo", "it's", "a b", "$HOME"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(line)
	// Output:
	// echo 'it'\''s' 'a b' '$HOME'
}

// Run a command on a host of ~/.ssh/config.
func ExampleDial() {
	ctx := context.Background()
	client, err := ssh.Dial(ctx, ssh.Config{Host: "f1"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err) // names the host, the cause, and what to do
		return
	}
	defer client.Close()
	if err := client.Run(ctx, []string{"hostname"}, nil, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
