package survey_test

import (
	"context"
	"fmt"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher/session"
	"github.com/gorun/gorun/launcher/survey"
)

// Check says which hosts can run an agent.
func ExampleCheck() {
	dial := func(context.Context, hostfile.Host) (session.Host, error) {
		return nil, fmt.Errorf("connection refused")
	}
	for _, c := range survey.Check(context.Background(), []hostfile.Host{{Name: "f1"}}, survey.Reach{Dial: dial}) {
		fmt.Printf("%s: %v\n", c.Host.Name, c.Err)
	}
	// Output: f1: connection refused
}
