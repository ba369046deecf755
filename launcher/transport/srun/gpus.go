package srun

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gorun/gorun/hostfile"
)

// scontrolTime bounds a query to slurmctld.
const scontrolTime = 10 * time.Second

// askGPUs returns the job's GPUs by node, as values of srun's --gpus. Without --gpus, a step with
// --overlap requests the job's total on its one node. The map is empty if Slurm does not know.
func (s *Steps) askGPUs() map[string]string {
	ctx, cancel := context.WithTimeout(context.Background(), scontrolTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(s.srun), "scontrol"), "show", "job", "--details",
		s.Job.ID)
	cmd.Env = s.env
	out, _ := cmd.Output()
	return parseGPUs(string(out))
}

// parseGPUs returns the GPUs of every node from the output of scontrol about a job, whose lines are
// such as
//
//	Nodes=n[1-2] CPU_IDs=2-3 Mem=0 GRES=gpu:a100:2(IDX:0,3),gpu:1(IDX:1)
//
// It is pure.
func parseGPUs(job string) map[string]string {
	gpu := regexp.MustCompile(`(?:^|,)gpu((?::[^:(),]+)?:\d+)\(`)
	gpus := map[string]string{}
	for line := range strings.Lines(job) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "Nodes=")
		if !ok {
			continue
		}
		list, rest, _ := strings.Cut(text, " ")
		_, resources, _ := strings.Cut(rest, "GRES=")
		var counts []string
		for _, match := range gpu.FindAllStringSubmatch(resources, -1) {
			counts = append(counts, match[1][1:])
		}
		nodes, err := hostfile.Hostlist("Nodes", list)
		if err != nil || len(counts) == 0 {
			continue
		}
		for _, node := range nodes {
			gpus[node] = strings.Join(counts, ",")
		}
	}
	return gpus
}
