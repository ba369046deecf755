// Package gpucheck holds no code of gorun's, but the programs of `make gpu-test`, in Python: check.py makes the checks, and ranks.py is
// one rank of them. Its tests run what needs no GPU.
package gpucheck
