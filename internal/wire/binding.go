package wire

// What a rank may be bound to.
const (
	BindThread = "hwthread"
	BindCore   = "core"
	BindNode   = "numa"
	BindSocket = "socket"
)

// Binding is what every host binds its ranks to.
type Binding struct {
	To          string `json:",omitempty"` // one of the names above; "": ranks are not bound
	Each        int    `json:",omitempty"` // cores a rank needs, hardware threads where it is bound to those; 0: not set
	Overload    bool   `json:",omitempty"` // ranks may share what they are bound to
	IfSupported bool   `json:",omitempty"` // where the system forbids binding ranks stay unbound
	Near        bool   `json:",omitempty"` // ranks go to the NUMA nodes of their GPUs: the user has set no binding
}

// Location is where on its host a rank runs.
type Location struct {
	Rank    int
	CPUs    string `json:",omitempty"` // hardware threads, as the kernel lists them: 0-3,8; "": it is not bound
	Where   string `json:",omitempty"` // them in words: cores 2-3 of socket 0
	Threads int    `json:",omitempty"` // OMP_NUM_THREADS as the agent sets it; 0: it does not
	// GPUs are those of the rank, by index, or by UUID where GPUs are partitioned.
	GPUs []string `json:",omitempty"`
}

// GPUs is what a host's ranks are to get of its GPUs. The zero value is auto.
type GPUs struct {
	Leave   bool `json:",omitempty"` // nothing is done about GPUs, nor asked
	PerRank int  `json:",omitempty"` // for each rank; 0: auto
	Listed  int  `json:",omitempty"` // the number in the hostfile, which bounds what ranks get; 0: none
}
