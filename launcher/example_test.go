package launcher_test

import (
	"fmt"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher"
)

// Six ranks on two hosts of four slots: the first host is filled, the second gets the rest. Run would start them.
func ExampleNewPlan() {
	hosts := []hostfile.Host{{Name: "f1", Slots: 4}, {Name: "f2", Slots: 4}}
	plan, err := launcher.NewPlan(hosts, launcher.Request{NP: 6})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(plan)
	// Output:
	// 6 ranks on 2 hosts
	//   f1  4 slots, ranks 0-3
	//   f2  4 slots, ranks 4-5
}
