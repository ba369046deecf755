package plan_test

import (
	"fmt"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher/plan"
)

// Six ranks on two hosts of four slots: the first host is filled, the second gets the rest. Run
// would start them.
func ExampleNew() {
	hosts := []hostfile.Host{{Name: "f1", Slots: 4}, {Name: "f2", Slots: 4}}
	p, err := plan.New(hosts, plan.Request{NP: 6})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(p)
	// Output:
	// 6 ranks on 2 hosts
	//   f1  4 slots, ranks 0-3
	//   f2  4 slots, ranks 4-5
}
