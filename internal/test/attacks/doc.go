// Package attacks holds the tests that attack the built gorun, within the limits of
// docs/security.md: as another user of a host, as a peer on the network, and through the names and
// files that gorun is given. Attacks by a hostile host, server or rank are made in the packages
// that meet them.
package attacks
