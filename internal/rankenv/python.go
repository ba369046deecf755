package rankenv

import "path/filepath"

// UsePython makes a Python environment the one of a rank, as its script activate would: its
// programs come first.
func UsePython(env map[string]string, dir string) {
	path := filepath.Join(dir, "bin")
	if old := env["PATH"]; old != "" {
		path += string(filepath.ListSeparator) + old
	}
	env["PATH"] = path
	delete(env, "PYTHONHOME")
}
