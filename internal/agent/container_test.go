package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/agent/seat"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/wire"
)

func TestRanksInSingularityGetPrefixedVariables(t *testing.T) {
	dir := place(t, map[string]string{"singularity": "+x"})
	env := func(inherited string, argv ...string) map[string]string {
		job := wire.Job{Programs: []wire.Program{{Wdir: []byte(dir)}}, Env: [][]byte{[]byte("PATH=" + dir + ":/usr/bin:/bin"), []byte("A=1"), []byte("SINGULARITYENV_RANK=lie")}}
		for _, a := range argv {
			job.Programs[0].Argv = append(job.Programs[0].Argv, []byte(a))
		}
		p, err := prepare(job, strings.Fields(inherited))
		if err != nil {
			t.Fatal(err)
		}
		p[0].sit(slices.Repeat([]seat.Seat{{Threads: 1, GPUs: gpu.Share{Visible: "1", Order: "PCI_BUS_ID"}}}, 4))
		got := map[string]string{}
		for _, kv := range p[0].rankEnv(rankenv.Rank{Rank: 3, Size: 4, MasterAddr: "10.0.0.1", Encrypt: true, Elastic: true, GlooPort: 4711, Interface: "eth0", NCCLInterfaces: "eth0", PMIFD: 3, PMIPort: "127.0.0.1:1", Addr: "10.0.0.2"}) {
			name, value, _ := strings.Cut(kv, "=")
			if _, twice := got[name]; twice {
				t.Errorf("%s is there twice", name)
			}
			got[name] = value
		}
		return got
	}
	got := env("SINGULARITYENV_HOROVOD_SIZE=9", "env", "B=1", "singularity", "exec", "-e", "image", "true")
	for _, name := range rankenv.Names() {
		for _, prefix := range []string{"APPTAINERENV_", "SINGULARITYENV_"} {
			if value, set := got[prefix+name]; !set || value != got[name] {
				t.Errorf("%s%s is %q, %v; want %q", prefix, name, value, set, got[name])
			}
		}
	}
	for name, want := range map[string]string{"APPTAINERENV_RANK": "3", "SINGULARITYENV_HOROVOD_SIZE": "4", "APPTAINERENV_PYTHONUNBUFFERED": "1", "A": "1"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if _, set := got["APPTAINERENV_A"]; set {
		t.Error("APPTAINERENV_A is set, which nobody asked for")
	}
	got = env("SINGULARITYENV_PYTHONUNBUFFERED=", "./singularity")
	if value, set := got["APPTAINERENV_PYTHONUNBUFFERED"]; set || got["SINGULARITYENV_PYTHONUNBUFFERED"] != "" {
		t.Errorf("PYTHONUNBUFFERED is %q in containers, and the user said otherwise", value)
	}
	got = env("SINGULARITYENV_NCCL_SOCKET_IFNAME=ib0", "./singularity")
	if value, set := got["APPTAINERENV_NCCL_SOCKET_IFNAME"]; set || got["SINGULARITYENV_NCCL_SOCKET_IFNAME"] != "ib0" {
		t.Errorf("NCCL_SOCKET_IFNAME is %q in containers, and the user said otherwise", value)
	}
	got = env("A=1", "true")
	for _, name := range slices.Concat(rankenv.Names(), []string{"A"}) {
		if _, set := got["APPTAINERENV_"+name]; set {
			t.Errorf("APPTAINERENV_%s is set although there is no container", name)
		}
	}
}
