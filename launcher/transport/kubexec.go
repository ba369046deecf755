package transport

import (
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher/transport/rsh"
)

// kubectl returns kubectl exec as a remote shell.
func kubectl(namespace string, look func(string) (string, error)) ([]string, error) {
	program, err := look("kubectl")
	if err != nil {
		return nil, usage.Errorf("install kubectl, or reach the pods by SSH: --launcher ssh", "--launcher kubexec: %w",
			err)
	}
	argv := []string{program, "exec", "-i", "-q"}
	if namespace != "" {
		argv = append(argv, "--namespace="+namespace)
	}
	return argv, nil
}

// kubexecConfig returns how to call kubectl exec, argv, for a pod.
func kubexecConfig(argv []string, h hostfile.Host) (rsh.Config, error) {
	if h.User != "" || h.Port != 0 {
		return rsh.Config{}, usage.Errorf(
			"name the pod alone; --launch-agent-args '-c NAME' chooses one of its containers",
			"%s has a user or a port, which kubectl exec does not know", h.Name)
	}
	return rsh.Config{Argv: argv, Host: h.Name, After: []string{"--", "/bin/sh", "-c"}}, nil
}
