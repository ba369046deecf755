package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gorun/gorun/launcher"
)

// stdinChoice says on the command line which ranks read standard input: a rank, all or
// none. The zero value is rank 0.
type stdinChoice string

func (c *stdinChoice) Type() string { return "rank" }

func (c *stdinChoice) String() string {
	if *c == "" {
		return "0"
	}
	return string(*c)
}

func (c *stdinChoice) Set(text string) error {
	if _, err := strconv.ParseUint(text, 10, 20); err != nil && text != "all" && text != "none" {
		return errors.New("want one rank, such as 3, all or none")
	}
	*c = stdinChoice(text)
	return nil
}

// rank is a launcher.Options.StdinRank for a job of some size.
func (c *stdinChoice) rank(size int) (int, error) {
	switch c.String() {
	case "all":
		return launcher.StdinAll, nil
	case "none":
		return 0, nil // there will be no input
	}
	rank, err := strconv.Atoi(c.String())
	if err != nil {
		return 0, fmt.Errorf("--stdin %s: %w", c, err)
	}
	if rank >= size {
		return 0, usagef(fmt.Sprintf("this job's ranks go from 0 to %d", size-1), "--stdin %d: there is no rank %d", rank, rank)
	}
	return rank, nil
}

// srunInput reads srun's --input: what our --stdin knows, or a file, which is the shell's to open.
func (t *translator) srunInput(typed, text string) error {
	var c stdinChoice
	if err := c.Set(text); err == nil {
		return t.emit("stdin", typed, []string{text})
	}
	if strings.Trim(text, "0123456789,- ") == "" {
		return usagef("name one rank, or say "+typed+" all", "%s %s: standard input goes to one rank, or to all", typed, text)
	}
	return usagef("let the shell open it: "+typed+" all <"+text, "%s %s: gorun has nothing that does this", typed, text)
}
