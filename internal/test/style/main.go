// Style is a tool for go vet -vettool that refuses packed code: several statements in one
// assignment, lines that are too long, and struct literals with several fields on a line.
package main

import "golang.org/x/tools/go/analysis/unitchecker"

func main() { unitchecker.Main(statements(), literals(), lines()) }
