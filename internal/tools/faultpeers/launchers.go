package main

import (
	"os/exec"
	"regexp"
	"strings"

	"github.com/gorun/gorun/internal/test/lab"
)

// launcher is a launcher that the same harm is done to.
type launcher struct {
	name    string
	version string
	daemon  string // in the command line of what it runs on each host
	env     []string
	argv    func(c *lab.Cluster, system bool, program string) []string // system: reach hosts by the ssh program
}

// installed returns the installed launchers, gorun last.
func installed(gorun string) []launcher {
	const slots = "f1:2,f2:2"
	var all []launcher
	if v := version("mpirun.openmpi", "--version"); v != "" {
		all = append(all, launcher{
			name:    "mpirun",
			version: "Open MPI " + v,
			daemon:  "orted",
			argv: func(c *lab.Cluster, _ bool, program string) []string {
				return []string{"mpirun.openmpi", "--allow-run-as-root", "-np", "4", "-x", "FAULT_MARK", "--mca",
					"plm_rsh_args", "-F " + c.ConfigFile,
					"-H", slots, "sh", "-c", program}
			},
		})
	}
	if v := version("mpiexec.hydra", "--version"); v != "" {
		all = append(all, launcher{
			name:    "mpiexec.hydra",
			version: "Hydra " + v,
			daemon:  "hydra_pmi_proxy",
			argv: func(c *lab.Cluster, _ bool, program string) []string {
				return []string{"env", "HYDRA_LAUNCHER_EXTRA_ARGS=-F " + c.ConfigFile, "mpiexec.hydra", "-launcher",
					"ssh", "-np", "4", "-hosts", slots, "sh", "-c", program}
			},
		})
	}
	return append(all, launcher{
		name:    "gorun",
		version: "gorun",
		daemon:  "__serve",
		argv: func(c *lab.Cluster, system bool, program string) []string {
			argv := []string{gorun, "-F", c.ConfigFile, "-np", "4", "-H", slots}
			if system {
				argv = append(argv, "--launcher", "system-ssh")
			}
			return append(argv, "sh", "-c", program)
		},
	})
}

// version returns a program's version, or "" if it is not installed.
func version(argv ...string) string {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return ""
	}
	return regexp.MustCompile(`\d+\.\d+(\.\d+)?`).FindString(strings.TrimSpace(string(out)))
}
