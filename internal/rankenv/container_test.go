package rankenv

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
)

func TestFindContainer(t *testing.T) {
	golden.Cases(t, "testdata/containers.txt", func(line string) (string, error) {
		var argv []string
		for _, word := range strings.Fields(line) {
			argv = append(argv, strings.ReplaceAll(word, "_", " "))
		}
		c := FindContainer(argv)
		switch c.Runtime {
		case NoRuntime:
			return "", nil
		case Singularity:
			return "0 " + c.Name, nil
		}
		return fmt.Sprintf("%d %s %s", c.Runtime-1, c.Name, c.Command), nil
	})
	c := FindContainer([]string{"nice", "docker", "run", "-e", "X", "image"})
	check.That(t, slices.Equal(c.Args, []string{"run", "-e", "X", "image"}), "the words of docker are %q", c.Args)
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
		"run -e RANK image": true, "run --env RANK image": true, "run --env=GORUN_RANK image": true,
		"run -eRANK image":    true,
		"run -e RANK=3 image": true, "run -e GORUN_* image": true, "run --env-host image": true,
		"run --env-host=true image":                       true,
		"--container-image=i --container-env=A,RANK true": true, "--container-image i --container-env RANK true": true,
		"run image": false, "run -e HOME image": false, "run -e PYTHONUNBUFFERED image": false,
		"run -e RANKS image": false, "run -e": false,
		"run image --RANK": false, "run --env-file RANK image": false, "run --entrypoint RANK image": false,
		"run --env-host=false image": false,
	} {
		check.Equal(t, (Container{Args: strings.Fields(line)}).Named(), want, line)
	}
}

func TestNamesAreAllThatARankGets(t *testing.T) {
	names := Names()
	for _, want := range []string{"GORUN_RANK", "GORUN_TOKEN", "HOROVOD_RANK", "RANK", "MASTER_PORT",
		"HOROVOD_GLOO_RENDEZVOUS_PORT", "HOROVOD_CONTROLLER", "NCCL_SOCKET_IFNAME", "OMPI_COMM_WORLD_LOCAL_SIZE",
		"PYTHONUNBUFFERED"} {
		check.That(t, slices.Contains(names, want), "%s is missing in %q", want, names)
	}
	more := Prefixed(names, nil)
	check.That(t, len(more) == 2*len(names), "%d names, but %d with a prefix", len(names), len(more))
}

func TestPrefixed(t *testing.T) {
	for kv, want := range map[string]bool{
		"RANK=1": true, "LD_LIBRARY_PATH=/a:/b": true, "EMPTY=": true, "RAW=\xff\n=": true, "http_PROXY=x": true,
		"_a9=1":     true,
		"PATH=/bin": false, "HOME=/": false, "TERM=xterm": false, "PWD=/": false, "http_proxy=x": false,
		"NO_PROXY=x": false, "PREPEND_PATH=/": false,
		"APPTAINER_BIND=/a": false, "SINGULARITY_BIND=/a": false, "APPTAINERENV_A=1": false,
		"SINGULARITYENV_A=1": false,
		"A.B=1":              false, "9A=1": false, "BASH_FUNC_x%%=1": false, "=1": false, "TAKEN=1": false,
	} {
		got := Prefixed([]string{kv}, Taken([]string{"APPTAINERENV_TAKEN=2", "OTHER=1"}))
		if want && !slices.Equal(got, []string{"APPTAINERENV_" + kv, "SINGULARITYENV_" + kv}) || !want && got != nil {
			t.Errorf("%q: %q", kv, got)
		}
	}
	taken := Taken([]string{"SINGULARITYENV_A=1", "APPTAINERENV_B=1", "C=1"})
	check.That(t, len(taken) == 2 && taken["A"] && taken["B"], "taken: %v", taken)
}

func TestPrefixedNamesOfAnOuterJobAreStale(t *testing.T) {
	for name, want := range map[string]bool{"APPTAINERENV_RANK": true, "SINGULARITYENV_GORUN_TOKEN": true,
		"APPTAINERENV_PMI_RANK": true,
		"APPTAINERENV_A":        false, "SINGULARITYENV_LD_LIBRARY_PATH": false} {
		check.That(t, Stale(name) == want, "%s: %v", name, !want)
	}
}
