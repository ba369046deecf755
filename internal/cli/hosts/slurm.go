package hosts

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gorun/gorun/hostfile"
)

// ofSlurmJob selects list among the nodes of the surrounding Slurm job, which keep their slots unless list gives them.
// It returns no hosts if list names other hosts or more slots than the job has.
func (s Finder) ofSlurmJob(list hostfile.List, method string) (Selection, error) {
	_, inside, _ := FindSlurmJob(s.Lookup)
	if !inside || list.Relative() || method != "auto" && method != "srun" {
		return Selection{}, nil
	}
	p, err := s.Defaults()
	if err != nil || p.Hosts == nil {
		return Selection{}, nil // the list stands for itself
	}
	hosts, err := list.Select(p.Hosts, p.Source)
	var absent *hostfile.AbsentError
	switch {
	case errors.As(err, &absent) && method == "srun":
		return Selection{}, HostsError(err)
	case err != nil:
		return Selection{}, nil
	}
	return Selection{Hosts: hosts, Source: "-H among " + p.Source, Warnings: slices.Concat(p.Warnings, list.Warnings)}, nil
}

// SlurmJob is the Slurm job that gorun runs in.
type SlurmJob struct {
	ID     string
	Nodes  map[string]int // node to its component of a heterogeneous job
	Hetero bool
}

// FindSlurmJob reads a Slurm job from environment variables; ok is false outside a job.
func FindSlurmJob(lookup func(string) (string, bool)) (job SlurmJob, ok bool, err error) {
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

func (j SlurmJob) Has(node string) bool {
	_, ok := j.Nodes[node]
	return ok
}

// Group returns the component of a heterogeneous job that contains a node; ok is false in other jobs.
func (j SlurmJob) Group(node string) (group int, ok bool) { return j.Nodes[node], j.Hetero }
