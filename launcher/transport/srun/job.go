package srun

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gorun/gorun/hostfile"
)

// Job is the Slurm job that gorun runs in.
type Job struct {
	ID     string
	Nodes  map[string]int // node to its component of a heterogeneous job
	Hetero bool
}

// FindJob reads a Slurm job from environment variables; ok is false outside a job.
func FindJob(lookup func(string) (string, bool)) (job Job, ok bool, err error) {
	get := func(names ...string) (name, value string) {
		for _, name = range names {
			if value, _ = lookup(name); value != "" {
				return name, value
			}
		}
		return "", ""
	}
	_, job.ID = get("SLURM_JOB_ID", "SLURM_JOBID")
	if job.ID == "" {
		return job, false, nil
	}
	job.Nodes = map[string]int{}
	add := func(group int, names ...string) (found bool, err error) {
		name, text := get(names...)
		if text == "" {
			return false, nil
		}
		nodes, err := hostfile.Hostlist(name, text)
		for _, node := range nodes {
			job.Nodes[node] = group
		}
		return true, err
	}
	for group := 0; ; group++ {
		found, err := add(group, fmt.Sprintf("SLURM_JOB_NODELIST_HET_GROUP_%d", group))
		if err != nil {
			return job, true, err
		}
		if !found {
			break
		}
		job.Hetero = true
	}
	if !job.Hetero {
		_, err = add(0, "SLURM_JOB_NODELIST", "SLURM_NODELIST")
	}
	return job, true, err
}

// Has reports whether a node belongs to the job.
func (j Job) Has(node string) bool {
	_, ok := j.Nodes[node]
	return ok
}

// Names returns the nodes, sorted.
func (j Job) Names() []string { return slices.Sorted(maps.Keys(j.Nodes)) }

// Group returns the component of a heterogeneous job that contains a node; ok is false in other
// jobs.
func (j Job) Group(node string) (group int, ok bool) { return j.Nodes[node], j.Hetero }
