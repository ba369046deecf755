package job

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/internal/files/fetch"
	"github.com/gorun/gorun/internal/files/pyenv"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// programDir returns the directory of a program's ranks. A relative --wdir starts at the folder of
// --stage.
func programDir(o *settings.Options) (string, error) {
	if o.Stage == "" {
		return workingDir(o.Wdir)
	}
	dir, err := workingDir(o.Stage)
	if err != nil {
		return "", err
	}
	wdir := o.Wdir
	if !filepath.IsAbs(wdir) {
		wdir = filepath.Join(dir, wdir)
	}
	if sub, err := filepath.Rel(dir, wdir); err != nil || !filepath.IsLocal(sub) {
		return "", usage.Errorf("with --stage, --wdir must be inside that folder", "--wdir %s is not in --stage %s",
			o.Wdir, o.Stage)
	}
	return filepath.Clean(wdir), nil
}

// stagedFolder scans the folder of --stage. It returns nil without --stage, or if all ranks run
// here in the folder of that name.
func stagedFolder(o *settings.Options, leaves bool) (*launcher.WorkDir, error) {
	if o.Stage == "" {
		return nil, nil
	}
	dir, err := workingDir(o.Stage)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(o.Stage, wire.Arch) {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			err = syscall.ENOTDIR
		}
		if err != nil || !leaves {
			return nil, stageError(o.Stage, err)
		}
	}
	files := workdir.DefaultFiles
	bytes := int64(workdir.DefaultBytes)
	if o.StageLimit > 0 {
		files = workdir.MaxEntries
		bytes = int64(o.StageLimit)
	}
	tree, err := launcher.ScanWorkDir(dir, files, bytes, environmentBelow(dir, o.StageEnv)...)
	return tree, stageError(o.Stage, err)
}

// environmentBelow returns the path below a staged folder of the Python environment that hosts get
// on its own, if it is there.
func environmentBelow(dir, env string) []string {
	if env == "" {
		return nil
	}
	env, err := filepath.Abs(env)
	if err != nil {
		return nil
	}
	rel, err := filepath.Rel(dir, env)
	if err != nil || rel == "." || !filepath.IsLocal(rel) {
		return nil
	}
	return []string{rel}
}

// stageError turns an error of a scan into a usage error.
func stageError(named string, err error) error {
	var large *workdir.LimitError
	var link *workdir.LinkError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &large):
		return usage.Errorf("exclude files that ranks do not need, one pattern per line in "+
			filepath.Join(large.Dir, workdir.IgnoreFile)+
			", or raise the limit: --stage-limit 20G", "--stage %s: %w", named, err)
	case errors.As(err, &link):
		return usage.Errorf(linkHint(named, link.Path), "--stage %s: %w", named, err)
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(named, wire.Arch):
		return usage.Errorf("%a stands for a host's architecture: make one of the folders, such as "+
			wire.ForArch("amd64", named), "--stage %s: no such folder for amd64 or arm64", named)
	case errors.Is(err, fs.ErrNotExist):
		return usage.Errorf(usage.FileHint(named, "check the name; relative ones begin in the current directory"),
			"--stage %s: no such folder", named)
	case errors.Is(err, syscall.ENOTDIR):
		return usage.Errorf("name the folder that it is in: --stage "+prose.Quoted(filepath.Dir(named)),
			"--stage %s: it is no folder", named)
	}
	return usage.Errorf("", "--stage %s: %w", named, err)
}

// linkHint returns what to do about a link out of the folder, at path: most are in Python
// environments.
func linkHint(named, path string) string {
	if env := filepath.Dir(filepath.Dir(path)); filepath.Base(filepath.Dir(path)) == "bin" {
		if _, err := os.Stat(filepath.Join(env, "pyvenv.cfg")); err == nil {
			return "bring the Python environment on its own: --stage " + prose.Quoted(named) + " --stage-env " +
				prose.Quoted(env)
		}
	}
	return "make it point inside the folder, or exclude it in " + workdir.IgnoreFile
}

// filesBack returns which files come back to the current folder; nil: none.
func filesBack(patterns []string) (*launcher.Back, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	dir, err := workingDir(".")
	if err != nil {
		return nil, err
	}
	if err := fetch.CheckFolder(dir); err != nil {
		return nil, usage.Errorf(usage.Hint(err), "--stage-back to %s: %w", dir, err)
	}
	return &launcher.Back{Patterns: patterns, Dir: dir}, nil
}

// stagedPython reads the environment of --stage-env, to be copied below base on hosts. "" is none.
func stagedPython(dir, base string) (*launcher.PythonEnv, error) {
	if dir == "" {
		if base != "" {
			return nil, usage.Errorf("add --stage-env DIR", "--stage-env-dir %s: no environment is staged", base)
		}
		return nil, nil
	}
	env, err := pyenv.Scan(dir)
	var none *pyenv.NoEnvError
	switch {
	case errors.As(err, &none):
		return nil, usage.Errorf("name the folder that python -m venv or conda create has made, for example .venv",
			"--stage-env %s: %w", dir, err)
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage.Errorf("make it first: python3 -m venv "+prose.Quoted(dir), "--stage-env %s: no such folder",
			dir)
	case err != nil:
		return nil, usage.Errorf("", "--stage-env %s: %w", dir, err)
	}
	return &launcher.PythonEnv{Env: env, Base: base}, nil
}
