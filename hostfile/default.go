package hostfile

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Allocation is the hosts that a scheduler or an operator has assigned to the job.
type Allocation struct {
	Hosts    []Host
	NP       int      // ranks requested from the scheduler; 0 means one per slot
	Source   string   // the scheduler, with the names of its variables
	Warnings []string // one line each
}

// Default returns the hosts of a job for which the user named none: those of the
// first of these sources that is set.
//
//	Slurm           SLURM_STEP_NODELIST, SLURM_JOB_NODELIST and their companions
//	PBS, Torque     PBS_NODEFILE
//	LSF             LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS, LSB_HOSTS
//	Grid Engine     PE_HOSTFILE
//	host files of   OMPI_MCA_orte_default_hostfile, PRTE_MCA_prte_default_hostfile,
//	MPI launchers   HYDRA_HOST_FILE, I_MPI_HYDRA_HOST_FILE
//	Kubernetes      /etc/mpi/hostfile if K_MPI_JOB_ROLE is launcher
//
// It reads the environment through lookup, and files through open. It returns nil if no
// source is set. A variable that is invalid, or names a file that cannot be read, is an
// error: ignoring it would run the job on the wrong hosts.
func Default(lookup func(string) (string, bool), open func(string) (io.ReadCloser, error)) (*Allocation, error) {
	s := sources{open: open, get: func(name string) string {
		value, _ := lookup(name)
		return strings.TrimSpace(value)
	}}
	found, err := slurm(s.get)
	if found != nil || err != nil {
		return found, wrap("Slurm", err)
	}
	for _, source := range s.variables() {
		if s.get(source.name) == "" {
			continue
		}
		found, err := source.read(source.name)
		if found != nil || err != nil {
			return found, wrap(source.name, err)
		}
	}
	if s.get("K_MPI_JOB_ROLE") != "launcher" {
		return nil, nil
	}
	found, err = s.mpiFile("K_MPI_JOB_ROLE", "/etc/mpi/hostfile")
	return found, wrap("K_MPI_JOB_ROLE", err)
}

// wrap adds the source of the hosts to err.
func wrap(whose string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("find the hosts of %s: %w", whose, err)
}

// sources reads the files and variables that the environment names.
type sources struct {
	get  func(string) string
	open func(string) (io.ReadCloser, error)
}

// source is one variable that names hosts, and how to read it.
type source struct {
	name string
	read func(name string) (*Allocation, error) // returns nil if the variable names no hosts
}

func (s sources) variables() []source {
	hosts := func(parse func(name, text string) ([]Host, error)) func(string) (*Allocation, error) {
		return func(name string) (*Allocation, error) {
			hosts, err := parse(name, s.get(name))
			if fault, is := errors.AsType[*ParseError](err); is {
				fault.Line = 0 // a variable has no lines
			}
			return allocated(name)(hosts, err)
		}
	}
	file := func(parse func(name, text string) ([]Host, error)) func(string) (*Allocation, error) {
		return func(name string) (*Allocation, error) {
			text, err := s.text(s.get(name))
			if err != nil {
				return nil, err
			}
			return allocated(fmt.Sprintf("%s (%s)", name, s.get(name)))(parse(s.get(name), text))
		}
	}
	mpi := func(name string) (*Allocation, error) { return s.mpiFile(name, s.get(name)) }
	return []source{
		{"PBS_NODEFILE", file(hostPerSlot)},
		{"LSB_DJOB_HOSTFILE", file(hostPerSlot)},
		{"LSB_MCPU_HOSTS", hosts(hostsAndSlots)},
		{"LSB_HOSTS", hosts(hostPerSlot)},
		{"PE_HOSTFILE", file(gridEngine)},
		{"OMPI_MCA_orte_default_hostfile", mpi},
		{"PRTE_MCA_prte_default_hostfile", mpi},
		{"HYDRA_HOST_FILE", mpi},
		{"I_MPI_HYDRA_HOST_FILE", mpi},
	}
}

// allocated returns an allocation of hosts.
func allocated(source string) func([]Host, error) (*Allocation, error) {
	return func(hosts []Host, err error) (*Allocation, error) {
		if err != nil {
			return nil, err
		}
		return &Allocation{Hosts: hosts, Source: source}, nil
	}
}

func (s sources) text(name string) (string, error) {
	file, err := s.open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	return readAll(name, file)
}

// mpiFile reads a hostfile named by a variable of an MPI launcher. Two special
// names mean no hostfile.
func (s sources) mpiFile(variable, name string) (*Allocation, error) {
	if name == "none" || name == "HYDRA_USE_LOCALHOST" {
		return nil, nil
	}
	file, err := s.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	list, err := Parse(name, file)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"OMPI_MCA_orte_set_default_slots", "PRTE_MCA_prte_set_default_slots"} {
		if s.get(name) == "" {
			continue
		}
		slots, err := number(name, s.get(name), MaxSlots)
		if err != nil {
			return nil, err
		}
		list.setDefaultSlots(slots)
	}
	found, err := allocated(fmt.Sprintf("%s (%s)", variable, name))(list.Hosts())
	if err != nil {
		return nil, err
	}
	found.Warnings = list.Warnings
	return found, nil
}

// hostPerSlot parses one host name per slot, separated by blanks or line breaks.
func hostPerSlot(name, text string) ([]Host, error) {
	hosts := newTable()
	err := eachLine(name, text, func(words []word) *ParseError {
		for _, w := range words {
			if err := addCounted(hosts, w, w.text, 1); err != nil {
				return err
			}
		}
		return nil
	})
	return hosts.list, orEmpty(name, hosts, err)
}

// hostsAndSlots parses pairs of a host name and its slots.
func hostsAndSlots(name, text string) ([]Host, error) {
	hosts := newTable()
	err := eachLine(name, text, func(words []word) *ParseError {
		for i := 0; i < len(words); i += 2 {
			if i+1 == len(words) {
				return words[i].fault("the host's slots are missing: expected pairs such as a 4 b 2")
			}
			if err := addPair(hosts, words[i], words[i+1]); err != nil {
				return err
			}
		}
		return nil
	})
	return hosts.list, orEmpty(name, hosts, err)
}

// gridEngine parses lines of a host, its slots, a queue and a processor range.
func gridEngine(name, text string) ([]Host, error) {
	hosts := newTable()
	err := eachLine(name, text, func(words []word) *ParseError {
		if len(words) < 2 {
			return words[0].fault("the host's slots are missing: expected lines such as node1 4 all.q@node1 UNDEFINED")
		}
		return addPair(hosts, words[0], words[1])
	})
	return hosts.list, orEmpty(name, hosts, err)
}

func addPair(hosts *table, name, slots word) *ParseError {
	n, ok := atoi(slots.text, MaxSlots)
	if !ok && slots.text != "0" {
		return slots.fault(fmt.Sprintf("expected the slots of %s, a whole number up to %d", name.text, MaxSlots))
	}
	return addCounted(hosts, name, name.text, n)
}

// eachLine calls take with the words of every line that is not blank.
func eachLine(name, text string, take func(words []word) *ParseError) error {
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		words := fields(line, n)
		if len(words) == 0 {
			continue
		}
		if err := take(words); err != nil {
			err.File = name
			return err
		}
	}
	return nil
}

// orEmpty returns err, or an error if no host was found.
func orEmpty(name string, hosts *table, err error) error {
	if err == nil && len(hosts.list) == 0 {
		return &ParseError{File: name, Msg: "no host in it"}
	}
	return err
}
