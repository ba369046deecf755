package hosts

import (
	"errors"
	"slices"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher/transport/srun"
)

// ofSlurmJob selects list among the nodes of the surrounding Slurm job, which keep their slots
// unless list gives them. It returns no hosts if list names other hosts or more slots than the job
// has.
func (s Finder) ofSlurmJob(list hostfile.List, method string) (Selection, error) {
	_, inside, _ := srun.FindJob(s.Lookup)
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
		return Selection{}, hostsError(err)
	case err != nil:
		return Selection{}, nil
	}
	return Selection{Hosts: hosts, Source: "-H among " + p.Source, Warnings: slices.Concat(p.Warnings, list.Warnings)},
		nil
}
