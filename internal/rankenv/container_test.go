package rankenv

import (
	"slices"
	"strings"
	"testing"
)

func TestFindContainer(t *testing.T) {
	for line, want := range map[string]string{
		"singularity exec --nv horovod.sif python train.py":                  "0 singularity",
		"/opt/apptainer/bin/apptainer run i.sif":                             "0 apptainer",
		"./horovod.sif python train.py":                                      "0 horovod.sif",
		"run-singularity i.sif":                                              "0 run-singularity",
		"env singularity exec i.sif true":                                    "0 singularity",
		"env A=1 B=x=y singularity exec i.sif true":                          "0 singularity",
		"env -i -u HOME --unset=X --unset Y -C /tmp A=1 singularity i.sif":   "0 singularity",
		"env - -- A=1 singularity i.sif":                                     "0 singularity",
		"/usr/bin/env --chdir /tmp --ignore-signal apptainer run i.sif":      "0 apptainer",
		"env -S singularity_exec_i.sif true":                                 "0 singularity",
		"env -vS A=1_singularity_exec i.sif":                                 "0 singularity",
		"env -iSsingularity_run i.sif":                                       "0 singularity",
		"env --split-string=-u_A_singularity_run i.sif":                      "0 singularity",
		"env --split-string -u_A_singularity_run i.sif":                      "0 singularity",
		"env -uS singularity i.sif":                                          "0 singularity",
		"time -v -f %e -o out singularity i.sif":                             "0 singularity",
		"/usr/bin/time --format %e --output=o -a singularity i.sif":          "0 singularity",
		"timeout 60 singularity i.sif":                                       "0 singularity",
		"timeout -k 5 -s INT --foreground 60 singularity i.sif":              "0 singularity",
		"timeout -sINT --kill-after 5 --preserve-status 1h singularity":      "0 singularity",
		"timeout --kill 5 1h singularity i.sif":                              "0 singularity",
		"nice singularity i.sif":                                             "0 singularity",
		"nice -n 10 singularity i.sif":                                       "0 singularity",
		"nice -10 nice --adjustment=5 nice -n5 singularity i.sif":            "0 singularity",
		"ionice -c 2 -n7 -t singularity i.sif":                               "0 singularity",
		"numactl --cpunodebind=0 -m 0,1 -l --interleave all singularity":     "0 singularity",
		"numactl -N0 --membind 0 --localalloc -- singularity i.sif":          "0 singularity",
		"taskset 0x3 singularity i.sif":                                      "0 singularity",
		"taskset -ac 0-3 singularity i.sif":                                  "0 singularity",
		"taskset --cpu-list 0-3 singularity i.sif":                           "0 singularity",
		"chrt -r 50 singularity i.sif":                                       "0 singularity",
		"chrt -d -T 5 --sched-period 9 0 singularity i.sif":                  "0 singularity",
		"stdbuf -oL -e 0 --input=0 --output L singularity i.sif":             "0 singularity",
		"strace -f -o out -e trace=open --trace=close -tt singularity i.si":  "0 singularity",
		"strace -fo out -yy --user me -- singularity i.sif":                  "0 singularity",
		"nsys profile -o r --trace=cuda,nvtx --stats true -t cuda apptainer": "0 apptainer",
		"nsys launch --wait=all singularity i.sif":                           "0 singularity",
		"setsid -w nohup singularity i.sif":                                  "0 singularity",
		"time env A=1 numactl -N 0 timeout 9 nsys profile -o r singularity":  "0 singularity",
		"docker run -e RANK image":                                           "1 docker run",
		"docker --context far exec c true":                                   "1 docker exec",
		"timeout 9 podman container run image":                               "1 podman run",
		"enroot start --rw image":                                            "2 enroot start",
		"srun --container-image=x:y true":                                    "3 srun ",

		"docker build .": "", "enroot import x": "", "srun true": "",
		"": "", "python train.py": "", "python singularity": "", "echo singularity": "", "timeout singularity run": "",
		"env": "", "env A=1": "", "env -u": "", "env -S": "", "timeout -k": "", "taskset 3": "", "nsys": "", "nsys stats singularity": "",
		"strace -o singularity true": "", "time -o singularity true": "", "nice -n singularity true": "", "env -u singularity true": "",
		"numactl -m singularity true": "", "nsys profile -o singularity true": "", "singularity.sh": "", "sif": "", "env -uS -- true": "",
		"bash -c singularity": "", "env -S true singularity": "",
	} {
		var argv []string
		for _, word := range strings.Fields(line) {
			argv = append(argv, strings.ReplaceAll(word, "_", " "))
		}
		c := FindContainer(argv)
		got := ""
		if c.Runtime != NoRuntime {
			got = string(rune('0'+int(c.Runtime)-1)) + " " + c.Name
			if c.Runtime != Singularity {
				got += " " + c.Command
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	if c := FindContainer([]string{"nice", "docker", "run", "-e", "X", "image"}); !slices.Equal(c.Args, []string{"run", "-e", "X", "image"}) {
		t.Errorf("the words of docker are %q", c.Args)
	}
}

func FuzzFindContainer(f *testing.F) {
	f.Add("env\n-S\nenv -S 'env -S x' y\n--")
	f.Add("nsys\nprofile\n-\n--\n-x")
	f.Add("timeout\n-k\n-\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		FindContainer(strings.Split(text, "\n")) // ends, whatever is typed
	})
}

func TestNamed(t *testing.T) {
	for line, want := range map[string]bool{
		"run -e RANK image": true, "run --env RANK image": true, "run --env=GORUN_RANK image": true, "run -eRANK image": true,
		"run -e RANK=3 image": true, "run -e GORUN_* image": true, "run --env-host image": true, "run --env-host=true image": true,
		"--container-image=i --container-env=A,RANK true": true, "--container-image i --container-env RANK true": true,
		"run image": false, "run -e HOME image": false, "run -e PYTHONUNBUFFERED image": false, "run -e RANKS image": false, "run -e": false,
		"run image --RANK": false, "run --env-file RANK image": false, "run --entrypoint RANK image": false, "run --env-host=false image": false,
	} {
		if got := (Container{Args: strings.Fields(line)}).Named(); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

func TestNamesAreAllThatARankGets(t *testing.T) {
	names := Names()
	for _, want := range []string{"GORUN_RANK", "GORUN_TOKEN", "HOROVOD_RANK", "RANK", "MASTER_PORT", "HOROVOD_GLOO_RENDEZVOUS_PORT", "HOROVOD_CONTROLLER", "NCCL_SOCKET_IFNAME", "OMPI_COMM_WORLD_LOCAL_SIZE", "PYTHONUNBUFFERED"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing in %q", want, names)
		}
	}
	if more := Prefixed(names, nil); len(more) != 2*len(names) {
		t.Errorf("%d names, but %d with a prefix", len(names), len(more))
	}
}

func TestPrefixed(t *testing.T) {
	for kv, want := range map[string]bool{
		"RANK=1": true, "LD_LIBRARY_PATH=/a:/b": true, "EMPTY=": true, "RAW=\xff\n=": true, "http_PROXY=x": true, "_a9=1": true,
		"PATH=/bin": false, "HOME=/": false, "TERM=xterm": false, "PWD=/": false, "http_proxy=x": false, "NO_PROXY=x": false, "PREPEND_PATH=/": false,
		"APPTAINER_BIND=/a": false, "SINGULARITY_BIND=/a": false, "APPTAINERENV_A=1": false, "SINGULARITYENV_A=1": false,
		"A.B=1": false, "9A=1": false, "BASH_FUNC_x%%=1": false, "=1": false, "TAKEN=1": false,
	} {
		got := Prefixed([]string{kv}, Taken([]string{"APPTAINERENV_TAKEN=2", "OTHER=1"}))
		if want && !slices.Equal(got, []string{"APPTAINERENV_" + kv, "SINGULARITYENV_" + kv}) || !want && got != nil {
			t.Errorf("%q: %q", kv, got)
		}
	}
	taken := Taken([]string{"SINGULARITYENV_A=1", "APPTAINERENV_B=1", "C=1"})
	if len(taken) != 2 || !taken["A"] || !taken["B"] {
		t.Errorf("taken: %v", taken)
	}
}

func TestPrefixedNamesOfAnOuterJobAreStale(t *testing.T) {
	for name, want := range map[string]bool{"APPTAINERENV_RANK": true, "SINGULARITYENV_GORUN_TOKEN": true, "APPTAINERENV_PMI_RANK": true,
		"APPTAINERENV_A": false, "SINGULARITYENV_LD_LIBRARY_PATH": false} {
		if Stale(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}
