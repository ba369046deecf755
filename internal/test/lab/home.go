package lab

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// furnish writes the files in which a namespace host differs from the machine:
// accounts, their ranges of users, hosts and home.
func (c *Cluster) furnish(h *Host, spec Spec, hosts string) error {
	shell := spec.Shell
	if shell == "" {
		shell = "/bin/sh"
	}
	u := c.user
	texts := map[string]string{
		"passwd": systemAccounts("passwd", fmt.Sprintf("%s:x:%d:%d::%s:%s\n", u.name, u.uid, u.gid, c.homeMount(),
			shell)),
		"group":  systemAccounts("group", fmt.Sprintf("%s:x:%d:\n", u.name, u.gid)),
		"shadow": u.name + ":*:20000::::::\n", // no password, and not locked
		"hosts":  hosts,
		// Accounts of the machine may have ranges of users, which change what a container may do.
		"subuid": "",
		"subgid": "",
	}
	if spec.Boot != "" {
		texts["boot_id"] = spec.Boot + "\n"
	}
	if spec.PAM != "" {
		texts["pam"] = spec.PAM
	}
	for target, folder := range spec.Mounts {
		texts["mounts"] += folder + " " + target + "\n"
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return c.makeHome(h, spec)
}

// systemAccounts returns the machine's account file with one entry put first, which replaces any
// other of that name.
func systemAccounts(file, entry string) string {
	name, _, _ := strings.Cut(entry, ":")
	text, _ := os.ReadFile("/etc/" + file)
	b := strings.Builder{}
	b.WriteString(entry)
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, name+":") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// makeHome makes the host's home, unless another host has made the same one,
// and puts its files there.
func (c *Cluster) makeHome(h *Host, spec Spec) error {
	name := spec.Home
	if name == "" {
		name = h.Name
	}
	h.Home = filepath.Join(c.Dir, "homes", name)
	if err := os.MkdirAll(h.Home, 0o755); err != nil {
		return err
	}
	for path, text := range spec.Files {
		path = filepath.Join(h.Home, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return filepath.WalkDir(h.Home, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, c.user.uid, c.user.gid)
	})
}
