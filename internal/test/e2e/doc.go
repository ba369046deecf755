// Package e2e holds the tests that run the built gorun, as users do.
package e2e
