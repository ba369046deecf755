package cluster

import (
	"errors"
	"path/filepath"
)

// ExampleImages writes the archives of the images that a cluster needs: of the pods' pause program,
// and gorun-example as examples/kubernetes/Dockerfile describes it. bin has gorun and its examples.
func ExampleImages(to, parts, bin string) (archives []string, err error) {
	pause := filepath.Join(to, "pause.layer")
	programs := filepath.Join(to, "programs.layer")
	files := map[string]string{
		"etc/ssh/ssh_config":  filepath.Join(bin, "../examples/kubernetes/ssh_config"),
		"etc/ssh/sshd_config": filepath.Join(bin, "../examples/kubernetes/sshd_config"),
		"usr/local/bin/gorun": filepath.Join(bin, "gorun"),
	}
	for _, name := range []string{"allreduce", "hello", "mnist"} {
		files["usr/local/bin/"+name] = filepath.Join(bin, "examples", name)
	}
	archives = []string{filepath.Join(to, "pause.tar"), filepath.Join(to, "gorun-example.tar")}
	return archives, errors.Join(
		WriteLayer(pause, map[string]string{"pause": filepath.Join(parts, "bin/pause")}),
		WriteLayer(programs, files),
		Image{Name: "gorun.test/pause:1", Command: []string{"/pause"}, Layers: []string{pause}}.Write(archives[0]),
		Image{
			Name:    "docker.io/library/gorun-example:latest",
			User:    "1000:1000",
			Command: []string{"/bin/sh"},
			Layers:  []string{filepath.Join(parts, "base.tar"), programs},
		}.Write(archives[1]),
	)
}
