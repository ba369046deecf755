// Package layers holds no code, only a test: it parses every source file of the
// repository and fails where one breaks the rules of the architecture, such as
// which package may import which. Each failure says why the rule is there.
package layers
