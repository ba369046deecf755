package wire

// Units that ranks are bound to.
const (
	BindThread = "hwthread"
	BindCore   = "core"
	BindL2     = "l2cache"
	BindL3     = "l3cache"
	BindNode   = "numa"
	BindSocket = "socket"
	BindList   = "cpu-list" // all cores that ranks may use
)

// Binding is the binding policy of all hosts.
type Binding struct {
	To          string `json:",omitempty"` // a unit; "": ranks are not bound
	Each        int    `json:",omitempty"` // cores per rank, or hardware threads if To is BindThread; 0: not set
	Overload    bool   `json:",omitempty"` // ranks may share units
	IfSupported bool   `json:",omitempty"` // ranks stay unbound if the system forbids binding
	Near        bool   `json:",omitempty"` // the user has set no binding: ranks go to the NUMA nodes of their GPUs
	Soft        bool   `json:",omitempty"` // the mapping implies To: ranks stay unbound where cores are too few
	Over        string `json:",omitempty"` // the unit that ranks are dealt to; "": neighbours stay together
	Fill        int    `json:",omitempty"` // ranks that a unit of Over gets before the next; 0: one each in turn
	// BindCore: ranks are numbered in the order of cores; a larger unit: one on each in turn; "":
	// as dealt
	Number string `json:",omitempty"`
	Cores  string `json:",omitempty"` // the cores that ranks may use, in this order: 4,0-3; "": all
	// the hardware threads of each local rank in turn, by the kernel: 0-3,4-7+12; "": To counts
	CPUs string `json:",omitempty"`
}

// Units are how many of each unit a host has that ranks can be bound to, by name.
type Units map[string]int

// Placement is where a rank runs on its host.
type Placement struct {
	Rank    int
	CPUs    string `json:",omitempty"` // hardware threads in the kernel's format, 0-3,8; "": it is not bound
	Where   string `json:",omitempty"` // CPUs in words: cores 2-3 of socket 0
	Threads int    `json:",omitempty"` // OMP_NUM_THREADS that the agent sets; 0: unset
	// GPUs are the rank's GPUs by index, or by UUID if they are partitioned.
	GPUs []string `json:",omitempty"`
}

// GPUs is a request for GPUs. The zero value is auto.
type GPUs struct {
	Leave   bool `json:",omitempty"` // the agent neither lists nor assigns GPUs
	PerRank int  `json:",omitempty"` // GPUs per rank; 0: auto
	Listed  int  `json:",omitempty"` // GPUs in the hostfile, which bound the assigned ones; 0: no bound
}
