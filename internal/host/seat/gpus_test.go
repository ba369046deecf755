package seat

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/host/memexec"
	"github.com/gorun/gorun/internal/host/topology"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/files"
	"github.com/gorun/gorun/internal/test/must"
)

// withGPUs returns a host with four cores on two nodes, and the GPUs that a root shows.
func withGPUs(root fs.FS) *Host {
	h := fourCores()
	h.list = func(near bool, sent *os.File) ([]gpu.Device, error) {
		return listGPUs(gpu.Sources{Root: root, Memory: sent}, near, func(string) error { return nil })
	}
	return h
}

// assignment is a host that assigns seats to the ranks of a job.
type assignment struct {
	own     *Host
	job     wire.Job
	visible []Visibility // by program
	sent    []byte       // gorun-gpu
	seats   []Seat
}

func (a *assignment) assign() (err error) {
	a.seats, err = a.own.Assign(a.job, a.visible, a.sent)
	return err
}

func (a *assignment) locations() (all []wire.Placement) {
	for _, r := range a.job.Ranks {
		all = append(all, a.own.Location(r.Rank, a.seats[r.LocalRank]))
	}
	return all
}

// hostWith is an assignment before the ranks have seats. Each program has an environment.
func hostWith(h *Host, ranks int, gpus wire.GPUs, envs ...string) *assignment {
	job := wire.Job{GPUs: gpus, Host: "f1"}
	job.Binding.Near = true
	a := &assignment{own: h, job: job}
	for _, text := range envs {
		env := map[string]string{}
		for word := range strings.FieldsSeq(text) {
			name, value, _ := strings.Cut(word, "=")
			env[name] = value
		}
		a.visible = append(a.visible, VisibleIn(env))
	}
	for i := range ranks {
		a.job.Ranks = append(a.job.Ranks, wire.Rank{Rank: 4 + i, LocalRank: i, Program: i * len(envs) / ranks})
	}
	return a
}

func TestRanksGetGPUs(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes []int
		ranks int
		gpus  wire.GPUs
		envs  []string
		want  string // for each rank its GPUs, its variables and its cpus
		words string
	}{
		"no GPU":     {nil, 2, wire.GPUs{}, []string{""}, "[] 2 -|[] 2 -", ""},
		"left alone": {[]int{0, 1}, 2, wire.GPUs{Leave: true, Listed: 9}, []string{""}, "[] 2 -|[] 2 -", ""},
		"auto": {[]int{1, 0}, 2, wire.GPUs{}, []string{""}, "[0] 2 4-7|[1] 2 0-3",
			"2 GPUs, which all ranks see"},
		"auto, one rank": {[]int{1, 0}, 1, wire.GPUs{}, []string{""}, "[0] 4 -", "2 GPUs, which all ranks see"},
		"auto, shared": {[]int{1, 0}, 3, wire.GPUs{}, []string{""},
			"[0] 1 V=0 O=PCI_BUS_ID -|[1] 1 V=1 O=PCI_BUS_ID -|[0] 1 V=0 O=PCI_BUS_ID -",
			"2 GPUs, of which local rank 0 has 0, 1 has 1, 2 has 0"},
		"auto, one visible": {[]int{1, 0}, 1, wire.GPUs{}, []string{"CUDA_VISIBLE_DEVICES=1"}, "[1] 2 0-3",
			"1 GPU, which all ranks see"},
		"auto, hidden": {[]int{1, 0}, 1, wire.GPUs{}, []string{"CUDA_VISIBLE_DEVICES="}, "[] 4 -", ""},
		"one each": {[]int{1, 0}, 1, wire.GPUs{PerRank: 1}, []string{""}, "[0] 2 V=0 O=PCI_BUS_ID 4-7",
			"2 GPUs, of which local rank 0 has 0"},
		"one each of a list": {[]int{1, 0}, 2, wire.GPUs{PerRank: 1}, []string{"CUDA_VISIBLE_DEVICES=GPU-1,GPU-0"},
			"[1] 2 V=GPU-1 0-3|[0] 2 V=GPU-0 4-7", "2 GPUs, of which local rank 0 has 1, 1 has 0"},
		"both": {[]int{1, 0}, 1, wire.GPUs{PerRank: 2}, []string{""}, "[0 1] 4 V=0,1 O=PCI_BUS_ID -",
			"2 GPUs, of which local rank 0 has 0,1"},
		"one node for all": {[]int{0, 0}, 2, wire.GPUs{PerRank: 1}, []string{""},
			"[0] 1 V=0 O=PCI_BUS_ID 0-3|[1] 1 V=1 O=PCI_BUS_ID 0-3", "2 GPUs, of which local rank 0 has 0, 1 has 1"},
		"node unknown": {[]int{0, -1}, 2, wire.GPUs{PerRank: 1}, []string{""},
			"[0] 2 V=0 O=PCI_BUS_ID -|[1] 2 V=1 O=PCI_BUS_ID -", "2 GPUs, of which local rank 0 has 0, 1 has 1"},
		"node without cores": {[]int{7}, 1, wire.GPUs{}, []string{""}, "[0] 4 -", "1 GPU, which all ranks see"},
		"two programs": {[]int{0, 1}, 2, wire.GPUs{PerRank: 1}, []string{"CUDA_VISIBLE_DEVICES=1",
			"CUDA_VISIBLE_DEVICES=0"}, "[1] 2 V=1 4-7|[0] 2 V=0 0-3", "1 GPU, of which local rank 0 has 1, 1 has 0"},
		"two programs, auto": {[]int{0, 1}, 2, wire.GPUs{}, []string{"CUDA_VISIBLE_DEVICES=1", ""}, "[] 2 -|[] 2 -",
			"2 GPUs, which programs choose by their own CUDA_VISIBLE_DEVICES"},
	} {
		a := hostWith(withGPUs(files.GPUs(tt.nodes...)), tt.ranks, tt.gpus, tt.envs...)
		if err := a.assign(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for i, p := range a.locations() {
			env := strings.Join(a.seats[i].Environ(), " ")
			env = strings.NewReplacer("OMP_NUM_THREADS=", "", "CUDA_VISIBLE_DEVICES", "V", "CUDA_DEVICE_ORDER",
				"O").Replace(env)
			if p.CPUs == "" {
				p.CPUs = "-"
			}
			got = append(got, fmt.Sprint(p.GPUs, env, " ", p.CPUs))
		}
		text := strings.Join(got, "|")
		check.That(t, strings.ReplaceAll(text, "]", "] ") == strings.ReplaceAll(tt.want, "] ", "] ") &&
			a.own.GPUs == tt.words,
			"%s: %s (%s)\nwant %s (%s)", name, strings.ReplaceAll(text, "]", "] "), a.own.GPUs, tt.want, tt.words)
	}
}

func TestGPUsThatCannotBeAssigned(t *testing.T) {
	broken := fourCores()
	broken.list = func(bool, *os.File) ([]gpu.Device, error) { return nil, errors.New("signal: segmentation fault") }
	two := withGPUs(files.GPUs(0, 1))
	for _, tt := range []struct {
		host       *Host
		ranks      int
		gpus       wire.GPUs
		env        string
		what, hint string
	}{
		{two, 3, wire.GPUs{PerRank: 1}, "", "GPUs cannot be assigned: 3 ranks need 3 GPUs, and there are 2",
			"-H host:2"},
		{two, 1, wire.GPUs{Listed: 4}, "", "GPUs cannot be assigned: the hostfile says gpus=4, and there are 2",
			"correct gpus="},
		{two, 1, wire.GPUs{PerRank: 1}, "CUDA_VISIBLE_DEVICES=-1",
			"1 rank needs 1 GPU, and there is none, besides 2 that CUDA_VISIBLE_DEVICES", "leave --gpus-per-rank out"},
		{withGPUs(fstest.MapFS{}), 1, wire.GPUs{PerRank: 1}, "", "1 rank needs 1 GPU, and there is none", ""},
		{withGPUs(fstest.MapFS{}), 1, wire.GPUs{Listed: 1}, "", "the hostfile says gpus=1, and there is none",
			"--gpus-per-rank none"},
		{broken, 1, wire.GPUs{PerRank: 1}, "", "GPUs cannot be listed: signal: segmentation fault", "nvidia-smi"},
	} {
		var no *wire.Refuse
		err := hostWith(tt.host, tt.ranks, tt.gpus, tt.env).assign()
		check.That(t, errors.As(err, &no) && no.Code == wire.CodeHostFailed && strings.Contains(no.What, tt.what) &&
			strings.Contains(no.Remedy, tt.hint), "%+v: %+v, want %q", tt.gpus, err, tt.what)
	}
	// A job that requests no GPU runs without.
	a := hostWith(broken, 2, wire.GPUs{}, "")
	err := a.assign()
	check.That(t, err == nil && a.own.GPUs == "GPUs that cannot be listed (signal: segmentation fault)" &&
		a.locations()[0].GPUs == nil, "%v, %q", err, a.own.GPUs)
}

// Cores that were asked for are taken near the GPUs, if there are enough; other bindings stay as
// they were asked for.
func TestCoresNearGPUs(t *testing.T) {
	for _, tt := range []struct {
		nodes   []int
		binding wire.Binding
		ranks   int
		want    string
	}{
		{[]int{1, 0}, wire.Binding{To: "core", Each: 1, Near: true}, 2, "4-5/1 0-1/1"},
		{[]int{1, 1}, wire.Binding{To: "core", Each: 1, Near: true}, 2, "4-5/1 6-7/1"},
		{[]int{1, 1}, wire.Binding{To: "core", Each: 2, Near: true}, 2, "0-3/2 4-7/2"}, // one node has not enough
		{[]int{1, 0}, wire.Binding{To: "core", Each: 1}, 2, "0-1/1 2-3/1"},
		{[]int{1, 0}, wire.Binding{To: "socket"}, 2, "0-3/2 4-7/2"},
		{[]int{1, 0}, wire.Binding{}, 2, "/2 /2"},
		// one rank is on both nodes
		{[]int{1, 0, 0, 0}, wire.Binding{To: "core", Each: 1, Near: true}, 2, "0-1/1 2-3/1"},
	} {
		a := hostWith(withGPUs(files.GPUs(tt.nodes...)), tt.ranks, wire.GPUs{PerRank: len(tt.nodes) / tt.ranks}, "")
		a.job.Binding = tt.binding
		must.OK(t, a.assign())
		var got []string
		for _, p := range a.locations() {
			got = append(got, fmt.Sprintf("%s/%d", p.CPUs, p.Threads))
		}
		check.That(t, strings.Join(got, " ") == tt.want,
			"%+v near GPUs on nodes %v: %q, want %s", tt.binding, tt.nodes, got, tt.want)
	}
	a := hostWith(withGPUs(files.GPUs(1, 0)), 2, wire.GPUs{}, "")
	a.own.try = func(topology.Set) error { return syscall.EPERM }
	if err := a.assign(); err != nil || a.locations()[0].CPUs != "" || a.locations()[0].Threads != 2 {
		t.Errorf("where binding is forbidden: %v, %+v", err, a.locations())
	}
}

// A slot of an elastic job keeps its GPU; with auto it cannot know which GPU its rank takes.
func TestSlotsOfElasticJobsGetGPUs(t *testing.T) {
	for _, tt := range []struct {
		gpus  wire.GPUs
		slots int
		want  string
	}{
		{wire.GPUs{PerRank: 1}, 2, "[1] OMP_NUM_THREADS=2 CUDA_VISIBLE_DEVICES=1 CUDA_DEVICE_ORDER=PCI_BUS_ID 0-3"},
		{wire.GPUs{}, 2, "[1] OMP_NUM_THREADS=2 "},
		{wire.GPUs{}, 4, "[1] OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=1 CUDA_DEVICE_ORDER=PCI_BUS_ID "},
	} {
		a := hostWith(withGPUs(files.GPUs(1, 0)), 1, tt.gpus, "")
		a.job.Elastic = &wire.Elastic{Slot: 1, Slots: tt.slots, LocalSize: 1}
		must.OK(t, a.assign())
		p := a.locations()[0]
		check.Equal(t, fmt.Sprint(p.GPUs, " ", strings.Join(a.seats[0].Environ(), " "), " ", p.CPUs), tt.want, tt.gpus)
	}
}

// TestWhenTheDriverIsAsked checks that programs run only if there is a driver, and only for what
// /proc does not show.
func TestWhenTheDriverIsAsked(t *testing.T) {
	instance := files.GPUs(0)
	instance["proc/driver/nvidia/capabilities/gpu0/mig/gi1/access"] = &fstest.MapFile{}
	for name, tt := range map[string]struct {
		root  fstest.MapFS
		near  bool
		asked bool
		gpus  int
	}{
		"no driver":           {fstest.MapFS{}, true, false, 0},
		"what /proc shows":    {files.GPUs(0), false, false, 1},
		"what is between":     {files.GPUs(0), true, true, 1},
		"instances":           {instance, false, true, 1},
		"/proc shows nothing": {fstest.MapFS{"dev/nvidiactl": &fstest.MapFile{}}, false, true, 1},
	} {
		dir := t.TempDir()
		helper := filepath.Join(dir, "gorun-gpu")
		script := "#!/bin/sh\ntouch " + dir + `/asked
echo '{"devices": [{"index": 0, "bus_id": "0000:07:00.0", "mig_enabled": true, "mig": [{"uuid": "MIG-a"}]}]}'
`
		must.OK(t, os.WriteFile(helper, []byte(script), 0o700))
		devices, err := listGPUs(gpu.Sources{Root: tt.root, Helper: helper}, tt.near, func(string) error { return nil })
		_, missing := os.Stat(dir + "/asked")
		check.That(t, err == nil && len(devices) == tt.gpus && tt.asked == (missing == nil) &&
			(!tt.asked || len(devices[0].MIG) == 1), "%s: %+v, %v; asked: %v", name, devices, err, missing == nil)
	}
}

// CUDA does not count devices that may not be opened.
func TestOpenableGPUs(t *testing.T) {
	devices := []gpu.Device{{Index: 0, Minor: 0}, {Index: 1, Minor: 2}, {Index: 2, Minor: 1}, {Index: 3, Minor: -1}}
	for _, tt := range []struct {
		errs map[string]error
		want []int
	}{
		{nil, []int{0, 1, 2, 3}},
		{map[string]error{"/dev/nvidia2": syscall.EPERM}, []int{0, 2, 3}},
		{map[string]error{"/dev/nvidia0": syscall.EACCES, "/dev/nvidia1": syscall.ENOENT}, []int{1, 3}},
		{map[string]error{"/dev/nvidia0": syscall.ENOENT, "/dev/nvidia1": syscall.ENOENT,
			"/dev/nvidia2": syscall.ENOENT}, []int{3}},
	} {
		var got []int
		for _, d := range openable(devices, func(path string) error { return tt.errs[path] }) {
			got = append(got, d.Index)
		}
		check.That(t, slices.Equal(got, tt.want), "%v: %v, want %v", tt.errs, got, tt.want)
	}
	if got := openable(devices[:3], func(string) error { return syscall.ENOENT }); len(got) != 3 {
		t.Errorf("before the driver has made its files: %v", got)
	}
}

func TestHostLacksTheGPUProgram(t *testing.T) {
	instance := files.GPUs(0)
	instance["proc/driver/nvidia/capabilities/gpu0/mig/gi1/access"] = &fstest.MapFile{}
	for name, tt := range map[string]struct {
		from               gpu.Sources
		lacks, partitioned bool
	}{
		"no driver":              {gpu.Sources{Root: fstest.MapFS{}}, false, false},
		"a driver":               {gpu.Sources{Root: files.GPUs(0)}, true, false},
		"a driver without /proc": {gpu.Sources{Root: fstest.MapFS{"dev/nvidiactl": &fstest.MapFile{}}}, true, false},
		"instances":              {gpu.Sources{Root: instance}, true, true},
		"it lies beside":         {gpu.Sources{Root: instance, Helper: "/bin/gorun-gpu"}, false, false},
	} {
		if h := inspect(tt.from); h.LacksGPUProgram != tt.lacks || h.Partitioned != tt.partitioned {
			t.Errorf("%s: lacks it %v, partitioned %v", name, h.LacksGPUProgram, h.Partitioned)
		}
	}
}

// Nothing of the program is left: no folder has it, and its file is closed before ranks are
// started.
func TestSentProgramIsNotKept(t *testing.T) {
	open := func() (names []string) {
		entries := must.Get(filepath.Glob("/proc/self/fd/*"))(t)
		for _, e := range entries {
			if to, err := os.Readlink(e); err == nil && strings.Contains(to, "memfd:"+gpuProgram) {
				names = append(names, to)
			}
		}
		return names
	}
	during := 0
	a := hostWith(withGPUs(files.GPUs(0, 0)), 2, wire.GPUs{PerRank: 1}, "")
	list := a.own.list
	a.own.list = func(near bool, sent *os.File) ([]gpu.Device, error) {
		during = len(open())
		return list(near, sent)
	}
	text := must.Get(memexec.Pack([]byte("#!/bin/sh\n")))(t)
	a.sent = text
	if err := a.assign(); err != nil || during != 1 || len(open()) > 0 {
		t.Errorf("%v; %d files while it ran, then %q", err, during, open())
	}
}

func TestInventoryOfTheHost(t *testing.T) {
	pack := func(script string) []byte {
		return must.Get(memexec.Pack([]byte("#!/bin/sh\n" + script)))(t)
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("HOME", tmp)
	const shown = "NVIDIA A100-SXM4-40GB"
	for name, tt := range map[string]struct {
		sent          []byte
		want, warning string
	}{
		"gorun-gpu": {pack(`echo '{"devices": [{"index": 0, "bus_id": "0000:07:00.0", "name": "H100", "nvlinks": {"3": 12}}]}'`), "H100 map[3:12]", ""},
		"a crash":   {pack("kill -SEGV $$"), shown + " map[]", "list GPUs with gorun-gpu: signal: segmentation fault"},
		"no inventory": {pack("exit 0"), shown + " map[]",
			"list GPUs with gorun-gpu: read its inventory: unexpected end"},
		"nothing was sent": {nil, shown + " map[]", "neither gorun-gpu nor nvidia-smi"},
		"no gzip":          {[]byte("x"), shown + " map[]", "receive gorun-gpu: "},
		"a file in memory": {pack("readlink /proc/self/fd/3 >&2; exit 1"), shown + " map[]", "memfd:gorun-gpu"},
	} {
		inv, err := inspect(gpu.Sources{Root: files.GPUs(0)}).Inventory(t.Context(), tt.sent)
		if err != nil || len(inv.Devices) != 1 {
			t.Errorf("%s: %+v, %v", name, inv, err)
			continue
		}
		check.Equal(t, fmt.Sprint(inv.Devices[0].Name, " ", inv.Devices[0].NVLinks), tt.want, name)
		all := strings.Join(inv.Warnings, "\n")
		check.That(t, (all == "") == (tt.warning == "") && strings.Contains(all, tt.warning),
			"%s: warnings %q, want %q", name, all, tt.warning)
	}
	left, err := os.ReadDir(tmp)
	check.That(t, err == nil && len(left) == 0, "left on disk: %v, %v", left, err)
}

// An nvidia-smi in PATH that another user can change is not run, and gorun says so. It is looked
// for when it is asked.
func TestGPUsAreNotAskedOfProgramsOfOthers(t *testing.T) {
	program := filepath.Join(t.TempDir(), "nvidia-smi")
	must.OK(t, os.WriteFile(program, []byte("#!/bin/sh\nexit 3\n"), 0o700))
	from := gpuSources(fstest.MapFS{"dev/nvidiactl": &fstest.MapFile{}})
	from.Helper = ""
	said := func() string {
		inv, err := gpu.Details(t.Context(), from)
		return strings.Join(inv.Warnings, "") + fmt.Sprint(err)
	}
	t.Setenv("PATH", filepath.Dir(program))
	for mode, want := range map[os.FileMode]string{
		0o755: "list GPUs with " + program + ": exit status 3",
		0o777: "list GPUs with nvidia-smi: not safe, others can change " + filepath.Dir(program),
	} {
		must.OK(t, os.Chmod(filepath.Dir(program), mode))
		text := said()
		check.That(t, strings.HasPrefix(text, want), "%o: %q, want %q", mode, text, want)
	}
	t.Chdir(filepath.Dir(program))
	must.OK(t, os.Chmod(".", 0o755))
	t.Setenv("PATH", ".:")
	check.Equal(t, said(), "<nil>", "in the current folder")
}
