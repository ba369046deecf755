package files

import (
	"errors"
	"io/fs"

	"github.com/gorun/gorun/internal/files/pyenv"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// Python reads the environment of --stage-env, to be copied below base on hosts. "" is none.
func Python(dir, base string) (*launcher.PythonEnv, error) {
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
