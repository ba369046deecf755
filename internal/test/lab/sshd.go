package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// findSSHD returns the absolute path of sshd, which it needs to restart itself
// for every connection. Ordinary users rarely have sbin in their PATH.
func findSSHD() (string, error) {
	return findProgram("sshd", "/usr/sbin/sshd", "/usr/local/sbin/sshd")
}

// findProgram returns the first executable of names.
func findProgram(names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", &MissingError{names[0], "install openssh-server: apt-get install openssh-server, or dnf install " +
		"openssh-server"}
}

// prepare makes a host's directory with its keys and sshd_config.
func (c *Cluster) prepare(h *Host, spec Spec, listen string) error {
	h.dir = filepath.Join(c.Dir, h.Name)
	h.Log = filepath.Join(h.dir, "sshd.log")
	if err := os.Mkdir(h.dir, 0o755); err != nil {
		return err
	}
	kinds := spec.Keys
	if len(kinds) == 0 {
		kinds = []string{"ed25519"}
	}
	var files []string
	for _, kind := range kinds {
		file := filepath.Join(h.dir, "host_"+kind)
		public, err := newKey(kind, file)
		if err != nil {
			return err
		}
		files = append(files, file)
		h.Keys = append(h.Keys, public)
	}
	text := c.sshdConfig(h, spec, listen, files)
	return os.WriteFile(filepath.Join(h.dir, "sshd_config"), []byte(text), 0o644)
}

// sshdConfig returns a host's sshd_config, where the first value of an option wins.
func (c *Cluster) sshdConfig(h *Host, spec Spec, listen string, keys []string) string {
	lines := append([]string{}, spec.Options...)
	for _, key := range keys {
		lines = append(lines, "HostKey "+key)
	}
	if !spec.NoSFTP {
		lines = append(lines, "Subsystem sftp internal-sftp")
	}
	setenv := "SetEnv " + c.mark
	for _, env := range spec.Env {
		setenv += " " + strconv.Quote(env)
	}
	if c.launch == nil {
		// On loopback the login shell is that of the user who runs the tests. A nested bash does
		// not read .bashrc, which would take time and might not survive being killed half-way.
		setenv += " SHLVL=1"
	}
	lines = append(lines, setenv,
		"ListenAddress "+listen,
		"PidFile "+h.pidFile(),
		"AuthorizedKeysFile "+filepath.Join(c.Dir, "authorized_keys"),
		"StrictModes no", // the directory lies in /tmp, which everyone may write
		"PasswordAuthentication no",
		"KbdInteractiveAuthentication no",
		"PermitRootLogin yes",
		"UsePAM no",
		"UseDNS no",
		"PrintMotd no",
		"MaxStartups 1000",
		"LogLevel VERBOSE",
	)
	return strings.Join(lines, "\n") + "\n"
}

func (h *Host) pidFile() string { return filepath.Join(h.dir, "sshd.pid") }

// sshdArgs returns the command line of a host's sshd.
func (h *Host) sshdArgs(sshd string) []string {
	return []string{sshd, "-D", "-f", filepath.Join(h.dir, "sshd_config"), "-E", h.Log}
}

// awaitSSHD waits up to 20 s for the PID file, which sshd writes when it listens.
func (h *Host) awaitSSHD(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		text, _ := os.ReadFile(h.pidFile())
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return pid, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			log, _ := os.ReadFile(h.Log)
			return 0, fmt.Errorf("sshd of %s did not start: %w: %s", h.Name, ctx.Err(), log)
		}
	}
}

// writeClientFiles writes everything that an ssh client needs: user key, known_hosts and
// ssh_config.
func (c *Cluster) writeClientFiles() error {
	var config, known strings.Builder
	for _, h := range c.Hosts {
		if c.launch == nil { // in namespaces, names and ports are what they say
			fmt.Fprintf(&config, "Host %s\n  HostName %s\n  Port %d\n", h.Name, h.Addr, h.Port)
		}
		for _, key := range h.Keys {
			fmt.Fprintf(&known, "%s %s\n", h.knownName(), key)
		}
	}
	fmt.Fprintf(&config, `Host *
  User %s
  IdentityFile %s
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile %s
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
`, c.user.name, c.Identity, c.KnownHosts)
	if err := os.WriteFile(c.KnownHosts, []byte(known.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(c.ConfigFile, []byte(config.String()), 0o644)
}

// writeUserKey makes the key that all hosts accept.
func (c *Cluster) writeUserKey() error {
	public, err := newKey("ed25519", c.Identity)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.Dir, "authorized_keys"), []byte(public+"\n"), 0o644)
}

// knownName returns the host's name in known_hosts.
func (h *Host) knownName() string {
	if h.Port == 22 {
		return h.Name + "," + h.Addr
	}
	return fmt.Sprintf("[%s]:%d", h.Addr, h.Port)
}
