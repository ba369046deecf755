package gpu

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

// box is GPUs of one name on NUMA nodes.
func box(nodes ...int) (devices []Device) {
	for i, node := range nodes {
		devices = append(devices, Device{
			Index:    i,
			Minor:    i,
			UUID:     fmt.Sprintf("GPU-%d0a", i),
			BusID:    fmt.Sprintf("0000:%02x:00.0", i),
			Name:     "X",
			NUMANode: node,
		})
	}
	return devices
}

// link joins pairs, such as 0-2, by NVLinks.
func link(devices []Device, links int, pairs ...string) []Device {
	each(pairs, func(a, b int) {
		for _, d := range []int{a, b} {
			if devices[d].NVLinks == nil {
				devices[d].NVLinks = map[int]int{}
			}
		}
		devices[a].NVLinks[b] = links
		devices[b].NVLinks[a] = links
	})
	return devices
}

// lay lays a way over PCI between pairs.
func lay(devices []Device, path Path, pairs ...string) []Device {
	each(pairs, func(a, b int) {
		for _, d := range []int{a, b} {
			if devices[d].Paths == nil {
				devices[d].Paths = map[int]Path{}
			}
		}
		devices[a].Paths[b] = path
		devices[b].Paths[a] = path
	})
	return devices
}

func each(pairs []string, do func(a, b int)) {
	for _, p := range pairs {
		a, b, _ := strings.Cut(p, "-")
		i, _ := strconv.Atoi(a)
		j, _ := strconv.Atoi(b)
		do(i, j)
	}
}

// dgx has 8 GPUs on two sockets, pairs of them behind one switch, all joined by NVSwitch.
func dgx() []Device {
	d := box(0, 0, 0, 0, 1, 1, 1, 1)
	var near, far []string
	for a := range 8 {
		for b := range a {
			near = append(near, fmt.Sprintf("%d-%d", a, b))
			if a/4 == b/4 && a/2 != b/2 {
				far = append(far, fmt.Sprintf("%d-%d", a, b))
			}
		}
	}
	lay(d, System, near...)
	lay(d, Node, far...)
	lay(d, MultipleSwitches, "0-1", "2-3", "4-5", "6-7")
	return link(d, 12, near...)
}

// mesh is the hybrid cube of the first DGX: NVLinks to four neighbours, two of them double.
func mesh() []Device {
	d := box(0, 0, 0, 0, 1, 1, 1, 1)
	link(d, 1, "0-1", "0-2", "1-3", "2-3", "4-5", "4-6", "5-7", "6-7", "1-5", "2-6")
	return link(d, 2, "0-3", "0-4", "1-2", "3-7", "4-7", "5-6")
}

// partition turns a GPU into instances.
func partition(devices []Device, i, instances int) []Device {
	devices[i].MIGEnabled = true
	for n := range instances {
		devices[i].MIG = append(devices[i].MIG, MIG{UUID: fmt.Sprintf("MIG-%d%c", i, 'a'+n)})
	}
	return devices
}

// show formats an assignment: each rank's GPUs, variables and nodes.
func show(d Assignment) string {
	var parts []string
	for _, s := range d.Shares {
		text := strings.Join(s.GPUs, ",")
		if s.Visible != "" {
			text += "=" + s.Visible
		}
		if s.Order != "" {
			text += "!"
		}
		if s.Nodes != nil {
			text += strings.ReplaceAll(fmt.Sprintf("@%v", s.Nodes), " ", ",")
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func TestAssign(t *testing.T) {
	unlike := box(0, 1)
	unlike[1].Name = "Y"
	nowhere := box(-1, 0)
	none := ""
	slurm := "2,3"
	for name, tt := range map[string]struct {
		devices []Device
		ask     Request
		want    string
	}{
		// Auto leaves the choice to programs that choose by LOCAL_RANK.
		"auto, a rank a GPU":         {dgx(), Request{Ranks: 8}, "0@[0] 1@[0] 2@[0] 3@[0] 4@[1] 5@[1] 6@[1] 7@[1]"},
		"auto, more GPUs":            {dgx(), Request{Ranks: 2}, "0 1"},
		"auto, one rank":             {dgx(), Request{Ranks: 1}, "0"},
		"auto, more ranks":           {box(0, 1), Request{Ranks: 5}, "0=0! 1=1! 0=0! 1=1! 0=0!"},
		"auto, one GPU for all":      {box(0), Request{Ranks: 3}, "0 0 0"},
		"auto, a rank and a GPU":     {box(0), Request{Ranks: 1}, "0@[0]"},
		"auto, no GPU":               {nil, Request{Ranks: 2}, ""},
		"auto, hidden":               {dgx(), Request{Ranks: 2, Visible: &none}, ""},
		"auto in Slurm":              {dgx(), Request{Ranks: 2, Visible: &slurm}, "2@[0] 3@[0]"},
		"auto in Slurm, more ranks":  {dgx(), Request{Ranks: 3, Visible: &slurm}, "2=2 3=3 2=2"},
		"auto, some GPUs listed":     {dgx(), Request{Ranks: 3, Listed: 2}, "0=0! 1=1! 0=0!"},
		"auto, CUDA's order unknown": {unlike, Request{Ranks: 2}, "0 1"},
		"auto, CUDA's order known":   {unlike, Request{Ranks: 2, Order: "PCI_BUS_ID"}, "0@[0] 1@[1]"},
		"auto, CUDA's order named":   {unlike, Request{Ranks: 2, Visible: new("GPU-1,GPU-0")}, "1@[1] 0@[0]"},
		"auto, node unknown":         {nowhere, Request{Ranks: 2}, "0 1@[0]"},
		"auto, instances": {partition(box(0, 1), 0, 3), Request{Ranks: 3},
			"MIG-0a=MIG-0a MIG-0b=MIG-0b MIG-0c=MIG-0c"},
		"auto, instances, one rank": {partition(box(0, 1), 0, 3), Request{Ranks: 1}, "MIG-0a"},
		"auto, instances and a GPU": {partition(box(0, 1), 0, 1), Request{Ranks: 3},
			"MIG-0a=MIG-0a 1=GPU-10a MIG-0a=MIG-0a"},
		"auto, a GPU by number": {partition(box(0, 1), 0, 2), Request{Ranks: 2, Visible: new("0")},
			"MIG-0a=MIG-0a@[0] MIG-0b=MIG-0b@[0]"},
		"auto, instances not known": {box(0), Request{Ranks: 2, Visible: new("MIG-x,MIG-y")},
			"MIG-x=MIG-x MIG-y=MIG-y"},
		"auto, as old drivers name": {box(1), Request{Ranks: 2, Visible: new("MIG-GPU-00a/1/0,MIG-GPU-00a/2/0")},
			"MIG-GPU-00a/1/0=MIG-GPU-00a/1/0@[1] MIG-GPU-00a/2/0=MIG-GPU-00a/2/0@[1]"},
		"auto, partitioned into none": {partition(box(0), 0, 0), Request{Ranks: 2}, ""},

		// With a number ranks see their own.
		"one each": {dgx(), Request{Ranks: 8, PerRank: 1},
			"0=0!@[0] 1=1!@[0] 2=2!@[0] 3=3!@[0] 4=4!@[1] 5=5!@[1] 6=6!@[1] 7=7!@[1]"},
		"two each":   {dgx(), Request{Ranks: 4, PerRank: 2}, "0,1=0,1!@[0] 2,3=2,3!@[0] 4,5=4,5!@[1] 6,7=6,7!@[1]"},
		"three each": {dgx(), Request{Ranks: 2, PerRank: 3}, "0,1,2=0,1,2!@[0] 3,4,5=3,4,5!@[0,1]"},
		"all":        {dgx(), Request{Ranks: 1, PerRank: 8}, "0,1,2,3,4,5,6,7=0,1,2,3,4,5,6,7!@[0,1]"},
		"mesh, two each": {mesh(), Request{Ranks: 4, PerRank: 2},
			"0,3=0,3!@[0] 1,2=1,2!@[0] 5,6=5,6!@[1] 4,7=4,7!@[1]"},
		"mesh, four each": {mesh(), Request{Ranks: 2, PerRank: 4}, "0,1,2,3=0,1,2,3!@[0] 4,5,6,7=4,5,6,7!@[1]"},
		"bridges, two each": {link(box(0, 0, 1, 1), 4, "0-2", "1-3"), Request{Ranks: 2, PerRank: 2},
			"0,2=0,2!@[0,1] 1,3=1,3!@[0,1]"},
		"bridges, one each": {link(box(0, 0, 1, 1), 4, "0-2", "1-3"), Request{Ranks: 4, PerRank: 1},
			"0=0!@[0] 2=2!@[1] 3=3!@[1] 1=1!@[0]"},
		"switches, two each": {lay(lay(box(0, 0, 0, 0), HostBridge, "0-1", "0-2", "1-3", "2-3"), SingleSwitch, "0-3",
			"1-2"), Request{Ranks: 2, PerRank: 2}, "0,3=0,3!@[0] 1,2=1,2!@[0]"},
		"nodes only, two each": {box(0, 1, 0, 1), Request{Ranks: 2, PerRank: 2}, "0,2=0,2!@[0] 1,3=1,3!@[1]"},
		"nothing known":        {box(-1, -1, -1, -1), Request{Ranks: 2, PerRank: 2}, "0,1=0,1! 2,3=2,3!"},
		"as written": {dgx(), Request{Ranks: 2, PerRank: 2, Visible: new("7,0,5,3")},
			"7,0=7,0@[0,1] 5,3=5,3@[0,1]"},
		"UUIDs": {dgx(), Request{Ranks: 2, PerRank: 1, Visible: new("GPU-5,GPU-20a")},
			"5=GPU-5@[1] 2=GPU-20a@[0]"},
		"instances": {partition(partition(box(0, 1), 0, 2), 1, 2), Request{Ranks: 4, PerRank: 1},
			"MIG-0a=MIG-0a@[0] MIG-0b=MIG-0b@[0] MIG-1a=MIG-1a@[1] MIG-1b=MIG-1b@[1]"},
		"instances, then peers": {partition(link(box(0, 0), 4, "0-1"), 0, 2), Request{Ranks: 3, PerRank: 1},
			"MIG-0a=MIG-0a@[0] MIG-0b=MIG-0b@[0] 1=GPU-10a@[0]"},
		"unlike, by the bus":    {unlike, Request{Ranks: 2, PerRank: 1}, "0=0!@[0] 1=1!@[1]"},
		"unlike, in CUDA's way": {unlike, Request{Ranks: 2, PerRank: 1, Visible: new("0,1")}, "0=0 1=1"},
		"some listed":           {dgx(), Request{Ranks: 2, PerRank: 1, Listed: 2}, "0=0!@[0] 1=1!@[0]"},
	} {
		got, err := Assign(tt.devices, tt.ask)
		check.That(t, err == nil && show(got) == tt.want, "%s: %s, %v; want %s", name, show(got), err, tt.want)
	}
}

func TestAssignErrors(t *testing.T) {
	for _, tt := range []struct {
		devices    []Device
		ask        Request
		want, hint string
	}{
		{box(0, 0), Request{Ranks: 3, PerRank: 1}, "3 ranks need 3 GPUs, and there are 2",
			"give the host 2 ranks at most (-H host:2), or say --gpus-per-rank auto, with which ranks may share GPUs"},
		{dgx(), Request{Ranks: 3, PerRank: 3}, "3 ranks, 3 GPUs each, need 9 GPUs, and there are 8",
			"give the host 2 ranks at most (-H host:2), or say --gpus-per-rank 2"},
		{box(0), Request{Ranks: 1, PerRank: 2}, "1 rank needs 2 GPUs, and there is 1", "say --gpus-per-rank 1"},
		{box(0), Request{Ranks: 2, PerRank: 2}, "2 ranks, 2 GPUs each, need 4 GPUs, and there is 1",
			"say --gpus-per-rank auto, with which ranks may share GPUs"},
		{nil, Request{Ranks: 1, PerRank: 1}, "1 rank needs 1 GPU, and there is none",
			"leave --gpus-per-rank out to run without GPUs"},
		{dgx(), Request{Ranks: 2, PerRank: 2, Visible: new("1,2")}, "2 ranks, 2 GPUs each, need 4 GPUs, and there " +
			"are 2, besides 6 that CUDA_VISIBLE_DEVICES or the hostfile leaves out",
			"give the host 1 rank at most (-H host:1), or say --gpus-per-rank 1"},
		{dgx(), Request{Ranks: 2, PerRank: 2, Listed: 3}, "there are 3, besides 5", "--gpus-per-rank 1"},
		{dgx(), Request{Ranks: 1 << 62, PerRank: 4}, "and there are 8", "-H host:2"},
		{partition(box(0), 0, 7), Request{Ranks: 1, PerRank: 2},
			"a rank cannot have 2 GPUs: they are partitioned (MIG)", "say --gpus-per-rank 1"},
		{partition(box(0), 0, 2), Request{Ranks: 3, PerRank: 1}, "3 ranks need 3 GPUs, and there are 2", "-H host:2"},
		{partition(box(0), 0, 0), Request{Ranks: 1, PerRank: 1}, "1 rank needs 1 GPU, and there is none",
			"put gorun-gpu beside the gorun that you start"},
		{box(0, 0), Request{Ranks: 1, Listed: 4}, "the hostfile says gpus=4, and there are 2",
			"correct gpus= in the hostfile"},
		{nil, Request{Ranks: 1, PerRank: 1, Listed: 1}, "the hostfile says gpus=1, and there is none",
			"--gpus-per-rank none"},
		{dgx(), Request{Ranks: 1, Listed: 8, Visible: new("0,1")},
			"the hostfile says gpus=8, and there are 2, besides 6 that CUDA_VISIBLE_DEVICES", ""},
	} {
		_, err := Assign(tt.devices, tt.ask)
		var hinted interface{ Hint() string }
		check.That(t, err != nil && strings.Contains(err.Error(), tt.want) && errors.As(err, &hinted) &&
			strings.Contains(hinted.Hint(), tt.hint),
			"Assign(%d devices, %+v): %v, want %q and the hint %q", len(tt.devices), tt.ask, err, tt.want, tt.hint)
	}
}

// What fits is assigned: to each its number, and nothing twice.
func TestAssignFits(t *testing.T) {
	for have := range 17 {
		devices := mesh()[:min(have, 8)]
		for i := len(devices); i < have; i++ {
			devices = append(devices, Device{Index: i, NUMANode: i % 3})
		}
		for ranks := 1; ranks < 18; ranks++ {
			for per := 1; per < 18; per++ {
				assigned, err := Assign(devices, Request{Ranks: ranks, PerRank: per})
				if fits := ranks*per <= have; fits != (err == nil) {
					t.Fatalf("%d GPUs to %d ranks, %d each: err = %v", have, ranks, per, err)
				} else if !fits {
					continue
				}
				seen := map[string]bool{}
				for _, s := range assigned.Shares {
					for _, name := range s.GPUs {
						seen[name] = true
					}
					if len(s.GPUs) != per || s.Visible != strings.Join(s.GPUs, ",") {
						t.Fatalf("%d GPUs to %d ranks, %d each: %s", have, ranks, per, show(assigned))
					}
				}
				if len(seen) != ranks*per {
					t.Fatalf("%d GPUs to %d ranks, %d each: %s", have, ranks, per, show(assigned))
				}
			}
		}
	}
}

// CUDA_VISIBLE_DEVICES is read as the driver reads it.
func TestVisible(t *testing.T) {
	devices := box(0, 0, 0, 0)
	devices[3].UUID = "GPU-20b" // begins as that of 2
	unknown := box(0, 0)
	unknown[1].UUID = ""
	for _, tt := range []struct {
		devices []Device
		visible string
		want    string
	}{
		{devices, "0,1,2,3", "0 1 2 3"},
		{devices, "3,1", "3 1"},
		{devices, " 2 , 1 ", "2 1"},
		{devices, "", ""},
		{devices, "-1", ""},
		{devices, "NoDevFiles", ""},
		{devices, "none", ""},
		{devices, "void", ""},
		{devices, "0,2,-1,1", "0 2"},
		{devices, "0,4,1", "0"},
		{devices, "1,,2", "1"},
		{devices, "2x,+1", "2 1"},
		{devices, "1,2,1", ""},
		{devices, "0,GPU-00a", "0"},
		{devices, "99999999999999999999", ""},
		{devices, "GPU-1", "1"},
		{devices, "GPU-20b,GPU-0", "3 0"},
		{devices, "GPU-0,GPU-20,GPU-1", "0"}, // 20 begins two
		{devices, "GPU-9,GPU-1", ""},
		{devices, "GPU-0,1", "0"},
		{devices, "GPU-0,GPU-00a", ""},
		{unknown, "GPU-9,GPU-0", "-1 0"},
		{devices, "MIG-a,MIG-b,GPU-0", "-1 -1"},
		{devices, "MIG-a,MIG-a", ""},
		{devices, "MIG-GPU-10a/7/0", "1"},
		{devices, "MIG-", ""},
	} {
		var got []string
		for _, u := range unitsOf(tt.devices, &tt.visible) {
			got = append(got, strconv.Itoa(u.device))
		}
		check.That(t, strings.Join(got, " ") == tt.want,
			"CUDA_VISIBLE_DEVICES=%q shows %q, want %q", tt.visible, got, tt.want)
	}
}

// FuzzVisible checks that any list can be assigned, and that ranks see the GPUs that they were
// assigned.
func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"0,1", "3,-1", "GPU-1,GPU-0", "MIG-0a,MIG-0b", "NoDevFiles", "GPU-0,,", "+1x,2"} {
		f.Add(seed, uint8(3))
	}
	f.Fuzz(func(t *testing.T, visible string, ranks uint8) {
		for _, devices := range [][]Device{dgx(), partition(box(0, 1), 0, 2)} {
			for per := range 3 {
				assigned, err := Assign(devices, Request{Ranks: int(ranks) + 1, PerRank: per, Visible: &visible})
				if err != nil {
					continue
				}
				for _, s := range assigned.Shares {
					if s.Visible == "" {
						continue
					}
					if again := names(devices, unitsOf(devices, &s.Visible)); !slices.Equal(again, s.GPUs) {
						t.Fatalf("%q of %q shows %q, assigned were %q", s.Visible, visible, again, s.GPUs)
					}
				}
			}
		}
	})
}
