package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// --print-env-flags names exactly the variables that ranks get: those of PMI, Horovod, torchrun and the rest. Some ranks have a
// socket for MPI; those in docker's containers have a port.
func TestPrintedFlagsAreTheRanksVariables(t *testing.T) {
	words := strings.Fields(start(t, nil, "--print-env-flags").want(0).out.String())
	printed := map[string]bool{}
	for i := 0; i+1 < len(words); i += 2 {
		if words[i] != "-e" || printed[words[i+1]] {
			t.Fatalf("%q", words)
		}
		printed[words[i+1]] = true
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\nenv\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	docker := filepath.Join(dir, "docker")
	for _, program := range [][]string{{"env"}, {docker, "run", "-e", "RANK", "image"}, {"--min-np", "1", "env"}} { // the last job is elastic
		args := append([]string{"--no-env", "--encrypt", "--prefix", "none", "-np", "2", "--network-interface", "lo"}, program...)
		for _, line := range start(t, nil, args...).want(0).lines() {
			name, _, _ := strings.Cut(line, "=")
			set[name] = true
		}
	}
	for _, name := range []string{"PMI_RANK", "PMI_FD", "PMI_PORT", "PMI_ID", "HOROVOD_GLOO_RENDEZVOUS_PORT", "HOROVOD_CONTROLLER", "MASTER_ADDR", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"} {
		if !printed[name] {
			t.Errorf("%s is not printed", name)
		}
	}
	for name := range printed {
		if !set[name] && name != "CUDA_VISIBLE_DEVICES" && name != "CUDA_DEVICE_ORDER" { // which ranks have where GPUs are dealt
			t.Errorf("%s is printed, and no rank has it", name)
		}
	}
	for name := range set {
		_, ours := os.LookupEnv(name)
		if !ours && !printed[name] && !slices.Contains([]string{"E2E_MARK", "GORUN_GUARD", "PWD", "SHLVL", "_"}, name) { // the guard's mark is for gorun itself
			t.Errorf("ranks have %s, and it is not printed", name)
		}
	}
}
