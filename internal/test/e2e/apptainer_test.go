//go:build apptainer

package e2e

import "testing"

// TestRealApptainer shows that the real Apptainer behaves as the stand-in that other tests use. Debian has none, so it runs on
// demand: go test -tags apptainer -run RealApptainer ./internal/test/e2e
func TestRealApptainer(t *testing.T) { testContainers(t, newContainers(t, true)) }
