package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestForContainer(t *testing.T) {
	env := []string{"A=1", "LD_LIBRARY_PATH=/lib", "SINGULARITYENV_B=mine", "B=2", "PATH=/bin"}
	exported := []string{"B", "LD_LIBRARY_PATH", "PATH"}
	for _, tc := range []struct {
		program string
		more    []string
		says    string
	}{
		{"python train.py", nil, ""},
		{"singularity exec i.sif true", []string{"APPTAINERENV_LD_LIBRARY_PATH=/lib", "SINGULARITYENV_LD_LIBRARY_PATH=/lib"}, ""},
		{"env X=1 numactl -N 0 apptainer run i.sif", []string{"APPTAINERENV_LD_LIBRARY_PATH=/lib", "SINGULARITYENV_LD_LIBRARY_PATH=/lib"}, ""},
		{"docker run image", nil, "docker does not give containers RANK, WORLD_SIZE and the like: write docker run $(gorun --print-env-flags -x B -x LD_LIBRARY_PATH -x PATH) ..."},
		{"timeout 9 podman exec c true", nil, "write podman exec $(gorun --print-env-flags"},
		{"docker run -e RANK image", nil, ""},
		{"podman run --env-host image", nil, ""},
		{"docker build .", nil, ""},
		{"enroot start image", nil, " which is -e GORUN_JOB_ID -e "},
		{"srun --container-image=x true", nil, "srun --container-env=GORUN_JOB_ID,"},
	} {
		set, notice := forContainer(strings.Fields(tc.program), slices.Clone(env), exported)
		if !slices.Equal(set, slices.Concat(env, tc.more)) {
			t.Errorf("%s: %q", tc.program, set)
		}
		if (tc.says == "") != (notice == "") || !strings.Contains(notice, tc.says) {
			t.Errorf("%s: %q, want %q", tc.program, notice, tc.says)
		}
	}
}

// --print-env-flags names the variables that ranks have, and no others: what a rank gets of PMI, Horovod, torchrun and the rest. Some ranks have
// a socket for MPI, those in docker's containers a port.
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

func TestNoticesTypeAsTheyStand(t *testing.T) {
	_, notice := forContainer([]string{"docker", "run", "image"}, []string{"A B=1", "C=1"}, []string{"A B", "$(x)", "C"})
	if !strings.Contains(notice, "$(gorun --print-env-flags -x C) ...") {
		t.Errorf("%q", notice)
	}
}
