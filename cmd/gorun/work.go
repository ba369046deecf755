package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gorun/gorun/internal/agent"
	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/workdir"
	"github.com/gorun/gorun/launcher"
)

// runStage is gorun on a host that takes a folder for --stage.
func runStage(args []string) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "gorun: this command is internal to gorun")
		return 2
	}
	build, err := agent.Build("/proc/self/exe")
	var home string
	if err == nil {
		home, err = os.UserHomeDir()
	}
	if err == nil {
		err = workdir.Serve(leased{os.Stdin}, os.Stdout, workdir.Options{Nonce: args[1], Build: build, Home: home})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gorun:", err)
		return launcher.CodeLaunch
	}
	return 0
}

// leased is standard input whose other end must not fall silent: a launcher that was cut off never closes it.
type leased struct{ in io.Reader }

func (l leased) Read(p []byte) (int, error) {
	silence := time.AfterFunc(agent.Lease, func() {
		fmt.Fprintf(os.Stderr, "gorun: no word from the launcher for %v\n", agent.Lease)
		os.Exit(launcher.CodeLaunch)
	})
	defer silence.Stop()
	return l.in.Read(p)
}

// programDir is where the ranks of a program start: --wdir begins in the folder of --stage, if there is one.
func programDir(o *runOptions) (string, error) {
	if o.stage == "" {
		return workingDir(o.wdir)
	}
	dir, err := workingDir(o.stage)
	if err != nil {
		return "", err
	}
	wdir := o.wdir
	if !filepath.IsAbs(wdir) {
		wdir = filepath.Join(dir, wdir)
	}
	if sub, err := filepath.Rel(dir, wdir); err != nil || !filepath.IsLocal(sub) {
		return "", usage.Errorf("with --stage, --wdir is a directory in that folder", "--wdir %s is not in --stage %s", o.wdir, o.stage)
	}
	return filepath.Clean(wdir), nil
}

// stagedFolder is the folder of --stage; nil without it, and where no rank leaves this machine.
func stagedFolder(o *runOptions, leaves bool) (*workdir.Tree, error) {
	if o.stage == "" || !leaves {
		return nil, nil // without a copy, the agent checks it
	}
	dir, err := workingDir(o.stage)
	if err != nil {
		return nil, err
	}
	files, bytes := workdir.DefaultFiles, int64(workdir.DefaultBytes)
	if o.stageLimit > 0 {
		files, bytes = workdir.MaxEntries, int64(o.stageLimit)
	}
	tree, err := workdir.Scan(dir, files, bytes)
	return tree, stageError(o.stage, err)
}

// stageError says what to do about a folder that cannot be staged.
func stageError(named string, err error) error {
	var large *workdir.LimitError
	var link *workdir.LinkError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &large):
		return usage.Errorf("leave out what ranks do not need, a pattern a line in "+filepath.Join(large.Dir, workdir.IgnoreFile)+
			", or raise the limit: --stage-limit 20G", "--stage %s: %w", named, err)
	case errors.As(err, &link):
		return usage.Errorf("have it lead to a place in the folder, or name it in "+workdir.IgnoreFile, "--stage %s: %w", named, err)
	case errors.Is(err, fs.ErrNotExist):
		return usage.Errorf("", "--stage %s: there is no such folder", named)
	}
	return usage.Errorf("", "--stage %s: %w", named, err)
}
