package hostfile

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// slurmNames are the variables that describe a Slurm job or step.
type slurmNames struct {
	what              string // name for the user
	nodes, tasks, np  string
	cpus, cpusPerTask string
}

// slurm returns the allocation of a Slurm job or step, or nil outside one. A step's
// node list belongs to the step's task counts, a job's to the job's. Inside a step the
// variables of both are set.
func slurm(get func(string) string) (*Allocation, error) {
	id := cmp.Or(get("SLURM_JOB_ID"), get("SLURM_JOBID"))
	first := func(names ...string) string {
		for _, name := range names {
			if get(name) != "" {
				return name
			}
		}
		return names[0]
	}
	job := slurmNames{
		what:        "Slurm job " + id,
		nodes:       first("SLURM_JOB_NODELIST", "SLURM_NODELIST"),
		tasks:       "SLURM_TASKS_PER_NODE",
		np:          first("SLURM_NTASKS", "SLURM_NPROCS"),
		cpus:        "SLURM_JOB_CPUS_PER_NODE",
		cpusPerTask: "SLURM_CPUS_PER_TASK",
	}
	if step := get("SLURM_STEP_ID"); IsStep(step) && get("SLURM_STEP_NODELIST") != "" {
		job.what = fmt.Sprintf("Slurm step %s.%s", id, step)
		job.nodes = "SLURM_STEP_NODELIST"
		job.tasks = first("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
		job.np = first("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS")
	} else if groups := hetGroups(get, id); groups != nil {
		return slurmGroups(get, groups)
	}
	if get(job.nodes) == "" {
		return nil, nil
	}
	return slurmGroups(get, []slurmNames{job})
}

// IsStep reports whether SLURM_STEP_ID is the number of one of srun's steps. The highest numbers
// mean the batch script, containers and interactive shells, which have the whole job.
func IsStep(id string) bool {
	n, err := strconv.ParseUint(id, 10, 32)
	return err == nil && n < 4294967290
}

// hetGroups returns the components of a heterogeneous job, or nil for another job.
func hetGroups(get func(string) string, id string) []slurmNames {
	n, _ := atoi(get("SLURM_HET_SIZE"), MaxExpand)
	var groups []slurmNames
	for i := range n {
		group := func(name string) string { return fmt.Sprintf("%s_HET_GROUP_%d", name, i) }
		if get(group("SLURM_JOB_NODELIST")) == "" {
			break
		}
		groups = append(groups, slurmNames{
			what:        "Slurm job " + id,
			nodes:       group("SLURM_JOB_NODELIST"),
			tasks:       group("SLURM_TASKS_PER_NODE"),
			cpus:        group("SLURM_JOB_CPUS_PER_NODE"),
			cpusPerTask: group("SLURM_CPUS_PER_TASK"),
		})
	}
	return groups
}

// slurmGroups adds up the hosts of groups.
func slurmGroups(get func(string) string, groups []slurmNames) (*Allocation, error) {
	a := &Allocation{}
	hosts := newTable()
	var lists []string
	for _, g := range groups {
		names, err := Hostlist(g.nodes, get(g.nodes))
		if err != nil {
			return nil, err
		}
		counts, warning, err := g.slots(get, len(names))
		if err != nil {
			return nil, err
		}
		switch {
		case warning != "":
			a.Warnings = append(a.Warnings, warning) // the number of tasks is doubtful, too
		case len(groups) == 1 && get(g.np) != "":
			if a.NP, err = number(g.np, get(g.np), maxWords); err != nil {
				return nil, err
			}
		}
		for i, name := range names {
			if err := addCounted(hosts, word{raw: name}, name, counts[i]); err != nil {
				err.File = g.nodes
				return nil, err
			}
		}
		lists = append(lists, g.nodes)
	}
	if len(hosts.list) == 0 {
		return nil, &ParseError{File: groups[0].tasks, Msg: "no task on any host"}
	}
	a.Hosts = hosts.list
	a.Source = fmt.Sprintf("%s (%s)", groups[0].what, strings.Join(lists, ", "))
	return a, nil
}

// slots returns the slots of each of n nodes. If the task counts do not match the nodes, it guesses
// and warns.
func (g slurmNames) slots(get func(string) string, n int) (slots []int, warning string, err error) {
	var lengths []string
	for _, name := range []string{g.tasks, g.cpus} {
		if get(name) == "" {
			continue
		}
		if slots, err = Counts(name, get(name)); err != nil {
			return nil, "", err
		}
		if len(slots) == n {
			break
		}
		lengths = append(lengths, fmt.Sprintf("%s of %d", name, len(slots)))
		slots = nil
	}
	switch {
	case slots != nil && len(lengths) == 0 && get(g.tasks) != "":
		return slots, "", nil
	case slots != nil:
		perTask, _ := atoi(get(g.cpusPerTask), MaxSlots)
		for i := range slots {
			slots[i] = max(slots[i]/max(perTask, 1), 1)
		}
		warning = "one slot per task's cpus, from " + g.cpus
	default:
		for range n {
			slots = append(slots, 1)
		}
		warning = "one slot per host"
	}
	reason := g.tasks + " is not set"
	if len(lengths) > 0 {
		reason = fmt.Sprintf("%s speaks of %d hosts and %s", g.nodes, n, strings.Join(lengths, ", "))
	}
	return slots, reason + ": " + warning, nil
}

// number parses a whole number in a variable.
func number(name, text string, limit int) (int, error) {
	n, ok := atoi(text, limit)
	if !ok {
		return 0, &ParseError{File: name, Word: text, Msg: fmt.Sprintf("expected a whole number from 1 to %d", limit)}
	}
	return n, nil
}

// addCounted adds a host with its slots from a scheduler, which may be 0.
func addCounted(hosts *table, w word, name string, slots int) *ParseError {
	valid, msg := validName(name)
	if msg != "" {
		return w.fault(msg)
	}
	if slots == 0 {
		return nil
	}
	return hosts.add(w, Host{Name: valid, Slots: slots})
}
