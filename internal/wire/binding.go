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
	Each        int    `json:",omitempty"` // cores a rank needs, hardware threads where it is bound to those; 0: it was not said
	Overload    bool   `json:",omitempty"` // ranks may share what they are bound to
	IfSupported bool   `json:",omitempty"` // where the system forbids binding ranks stay unbound
}

// Place is where on its host a rank runs.
type Place struct {
	Rank    int
	CPUs    string `json:",omitempty"` // hardware threads, as the kernel lists them: 0-3,8; "": it is not bound
	Where   string `json:",omitempty"` // them in words: cores 2-3 of socket 0
	Threads int    `json:",omitempty"` // OMP_NUM_THREADS as the agent sets it; 0: it does not
}
