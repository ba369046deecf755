//go:build apptainer

package e2e

import "testing"

// Apptainer itself obeys the rules that the other tests rely on. It is not in Debian, so
// this test is asked for: go test -tags apptainer -run RealApptainer ./cmd/gorun
func TestRealApptainer(t *testing.T) { testContainers(t, newContainers(t, true)) }
