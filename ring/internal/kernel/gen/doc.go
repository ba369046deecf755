// Command gen writes the assembly of package kernel, and the Go code that calls
// it, into the folder given as its argument. With -check it only compares; in
// the kernel's folder that is
//
//	go -C gen run . -check ..
//
// It is a module of its own, so that the library does not depend on the
// assembler it uses.
//
// Two tables say what there is: tiers (instruction sets) and elems (types with
// their instructions). Everything else walks over them.
package main
