package job

import (
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

func TestNoticesTypeAsTheyStand(t *testing.T) {
	_, notice := forContainer([]string{"docker", "run", "image"}, []string{"A B=1", "C=1"}, []string{"A B", "$(x)", "C"})
	if !strings.Contains(notice, "$(gorun --print-env-flags -x C) ...") {
		t.Errorf("%q", notice)
	}
}
